"""Read the calls of tools that an API runs itself from the blocks of a reply.

The blocks are sent back to the API unchanged; they are read only for counting, for the store and for checking quotes.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from run_specialist.record.blocks import Block, text_of
from run_specialist.record.messages import ToolCall

USE = "server_tool_use"
_RESULT = "_tool_result"
_REFUSED = "max_uses_exceeded"
"""Error code of a use beyond `max_uses` of the tool, which is not run."""


@dataclass(frozen=True, slots=True)
class ServerCall:
    """A use of a tool of the API, or the result of a use in an earlier reply."""

    call: ToolCall
    was_made_here: bool
    """False if the use is in an earlier reply; its arguments are then unknown."""
    result: Block | None
    """None if the API runs it at the beginning of the next request."""
    cited: Sequence[tuple[str, str]] = ()
    """URL and text of each passage that the reply cites."""

    @property
    def error(self) -> str:
        """The error code in the result; empty if there is none."""
        content = self.result.get("content") if self.result else None
        return str(content.get("error_code") or "") if isinstance(content, Mapping) else ""

    @property
    def is_refused(self) -> bool:
        """True if it was not run, because one request may not use the tool more often."""
        return self.error == _REFUSED

    @property
    def text(self) -> str:
        """The readable part of the result; the content of search results is encrypted."""
        if self.error:
            return f"{self.call.name} failed: {self.error}"
        content = self.result.get("content") if self.result else None
        if isinstance(content, Mapping):
            return _page(content)
        found = content if isinstance(content, Sequence) and not isinstance(content, str) else ()
        return "\n\n".join(_found(one, self.cited) for one in found if isinstance(one, Mapping))


def is_result(block: Block) -> bool:
    """Return whether a block is the result of a tool that the API has run."""
    kind = str(block.get("type"))
    return kind.endswith(_RESULT) and len(kind) > len(_RESULT)


def has_server_calls(content: Iterable[Block]) -> bool:
    """Return whether some blocks contain a use of such a tool, or a result."""
    return any(block.get("type") == USE or is_result(block) for block in content)


def server_calls(content: Sequence[Block]) -> tuple[ServerCall, ...]:
    """Return the uses in a reply with their results, then the results of uses in earlier replies."""
    results = {str(block.get("tool_use_id")): block for block in content if is_result(block)}
    if not results and not has_server_calls(content):
        return ()
    cited = tuple(_citations(content))
    made = []
    for block in content:
        if block.get("type") == USE:
            arguments = block.get("input")
            call_id, name = str(block.get("id", "")), str(block.get("name", ""))
            call = ToolCall(call_id, name, arguments if isinstance(arguments, Mapping) else None)
            made.append(ServerCall(call, True, results.pop(call_id, None), cited))
    late = [
        ServerCall(ToolCall(call_id, str(block["type"]).removesuffix(_RESULT), {}), False, block, cited)
        for call_id, block in results.items()
    ]
    return (*made, *late)


def counted(content: Sequence[Block]) -> int:
    """Return the number of uses in a reply that count against the limit of tool calls; refused ones do not."""
    return sum(one.was_made_here and not one.is_refused for one in server_calls(content))


def searches(content: Sequence[Block]) -> int:
    """Return the number of web searches with results in a reply; a failed search is not billed."""
    return sum(one.call.name == "web_search" and bool(one.result) and not one.error for one in server_calls(content))


def _citations(content: Iterable[Block]) -> Iterator[tuple[str, str]]:
    for block in content:
        given = block.get("citations") if block.get("type") == "text" else None
        for one in given if isinstance(given, list) else ():
            if isinstance(one, Mapping) and isinstance(one.get("cited_text"), str):
                yield str(one.get("url", "")), one["cited_text"]


def _found(result: Mapping[str, Any], cited: Sequence[tuple[str, str]]) -> str:
    """Return a search result as text: title, address, and the passages that the reply cites from it."""
    url = str(result.get("url") or "")
    passages = dict.fromkeys(text for where, text in cited if where == url)
    lines = (result.get("title"), url, result.get("page_age"), *passages)
    return "\n".join(str(line) for line in lines if line)


def _page(content: Mapping[str, Any]) -> str:
    """Return a page that was fetched as text, under its address."""
    document = content.get("content")
    document = document if isinstance(document, Mapping) else {}
    source = document.get("source")
    source = source if isinstance(source, Mapping) else {}
    data, kind = source.get("data"), source.get("media_type")
    if source.get("type") == "text" and isinstance(data, str):
        body = data
    else:
        body = text_of(source.get("content")) or f"({kind or 'a document'} that cannot be read here)"
    lines = (f"{content.get('url') or ''}:", document.get("title"), "", body)
    return "\n".join(str(line) for line in lines if line is not None)

"""The conversation of a run: blocks, messages, tool calls, results, replies, usage. Frozen values, no I/O.

Content has the block format of the Messages API; providers of other APIs convert it.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from functools import cached_property
from operator import add, attrgetter
from typing import Any, Literal, Self

Block = Mapping[str, Any]
"""One content block in the format of the Messages API, e.g. `{"type": "text", "text": "..."}`."""


def text_of(content: object) -> str:
    """Return the text of all text blocks in the content of a message.

    content: a string, or blocks as mappings or SDK objects; thinking of any kind is omitted.
    """
    if isinstance(content, str):
        return content
    if not isinstance(content, Iterable):
        return ""
    text, was_cited = "", False
    for block in content:
        values = block if isinstance(block, Mapping) else getattr(block, "__dict__", {})
        part = block if isinstance(block, str) else values.get("text") if values.get("type") == "text" else None
        part = part if isinstance(part, str) else ""
        is_cited = isinstance(block, Mapping) and bool(block.get("citations"))
        # Citations split a text into blocks in the middle of its lines.
        text += ("\n" if text and part and not (was_cited or is_cited) else "") + part
        was_cited = is_cited
    return text


_THOUGHT = re.compile(
    r"\s*<think>.*?(?:</think>\s*|\Z)"  # an opening tag at the beginning, closed or not
    r"|(?:(?!<think>).)*?^\s*</think>[ \t]*\n\s*",  # only a closing tag on a separate line: the server's template opens
    re.DOTALL | re.MULTILINE,
)


def spoken(text: str) -> str:
    """Return a text without the reasoning that some servers put at its beginning."""
    thought = _THOUGHT.match(text) if "think>" in text else None
    return text[thought.end() :] if thought else text


def sendable(content: Iterable[Block]) -> tuple[Block, ...]:
    """Return the blocks of a reply in the form that the API accepts in the next request.

    Empty texts are removed, and arguments that are not an object become `{}`; thinking is kept byte for byte.
    """
    blocks: list[Block] = []
    for block in content:
        if block.get("type") == "tool_use" and not isinstance(block.get("input"), Mapping):
            blocks.append({**block, "input": {}})
        elif block.get("type") != "text" or str(block.get("text", "")).strip():
            blocks.append(block)
    return tuple(blocks)


CallFormat = Literal["native", "json"]
"""How a model calls tools: natively, as its API defines, or as JSON in the text of its reply."""
CallChoice = Literal["auto", "native", "json"]
"""The setting of `CallFormat`; `auto` leaves it to what is known of the model when a run begins."""
FirstSearch = Literal["auto", "on", "off"]
"""Whether a run begins with a search for its question; `auto`: for models that are bad at native calls."""

_COMPACT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def encode(value: object) -> bytes:
    """Serialize a value as compact UTF-8 JSON; the same value always gives the same bytes."""
    from pydantic_core import to_json  # noqa: PLC0415 - fast `--help`

    try:
        return to_json(value)
    except ValueError:
        # It is three times as fast, but takes no lone surrogates.
        return _COMPACT.encode(value).encode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A model's request to run one tool."""

    id: str
    """Id from the model, repeated in the result."""
    name: str
    """The name of the tool as the model wrote it; there may be no such tool."""
    arguments: Mapping[str, Any] | None
    """None if the model's arguments were not a JSON object."""

    @classmethod
    def of(cls, block: Block) -> Self:
        """Return the call in a `tool_use` block, or in that of a tool that the API runs."""
        given = block.get("input")
        return cls(str(block.get("id", "")), str(block.get("name", "")), given if isinstance(given, Mapping) else None)

    @property
    def key(self) -> str:
        """Name and arguments in a form that is equal for identical calls, regardless of the order of keys."""
        return f"{self.name} {json.dumps(self.arguments, sort_keys=True, default=str)}"


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of a tool call; every call has exactly one."""

    call_id: str
    """The `ToolCall.id`."""
    content: str
    """The text that the model reads, including notices."""
    is_error: bool = False
    """Whether the model sees a failed or skipped call."""

    def block(self) -> Block:
        """Return the `tool_result` block."""
        block = {"type": "tool_result", "tool_use_id": self.call_id, "content": self.content}
        return {**block, "is_error": True} if self.is_error else block


@dataclass(frozen=True, slots=True)
class CompletedCall:
    """A tool call of a transcript with its result."""

    call: ToolCall
    result: str = ""
    """The text of the result; empty without one."""
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class Message:
    """One message of the transcript, never edited."""

    role: Literal["user", "assistant"]
    blocks: tuple[Block, ...]
    """The content without the landing instruction."""
    landing_instruction: str | None = None
    """Instruction at the end of the message, once a limit is reached."""
    content: tuple[Block, ...] = field(init=False, repr=False, compare=False)
    """The blocks as sent: text and landing instruction are appended to the last result, if any.

    A separate text block after results would teach the model to end its turn without an answer.
    """

    def __post_init__(self) -> None:
        content = self.blocks
        if self.role == "user" and (self.landing_instruction or len(content) > 1):
            texts = [block["text"] for block in content if block["type"] == "text"]
            results = [block for block in content if block["type"] != "text"]
            lines = [*texts, *([self.landing_instruction] if self.landing_instruction else [])]
            if results and lines:
                content = (*results[:-1], {**results[-1], "content": "\n".join([results[-1]["content"], *lines])})
            elif self.landing_instruction:
                content = ({"type": "text", "text": "\n".join(lines)},)
        object.__setattr__(self, "content", content)

    @classmethod
    def user(cls, text: str) -> Self:
        """Return a user message with one text."""
        return cls("user", ({"type": "text", "text": text},))

    @classmethod
    def results(cls, results: Iterable[ToolResult]) -> Self:
        """Return the user message with the results of all calls of one turn."""
        return cls("user", tuple(result.block() for result in results))

    def with_instruction(self, landing_instruction: str | None) -> "Message":
        """Return the message with a landing instruction at its end; unchanged if it is None or empty."""
        return replace(self, landing_instruction=landing_instruction) if landing_instruction else self

    @property
    def encoded(self) -> bytes:
        """The message as JSON bytes, the same in every request."""
        return encode({"role": self.role, "content": self.content})


def has_calls(messages: Iterable[Message]) -> bool:
    """Return whether any of the messages contains a tool call."""
    return any(block["type"] == "tool_use" for message in messages for block in message.blocks)


@dataclass(frozen=True, slots=True)
class Usage:
    """Billed tokens; the total input is the sum of the first three fields."""

    input_tokens: int = 0
    """Input neither read from nor written to the prompt cache."""
    cache_read_input_tokens: int = 0
    cache_creation_input_tokens: int = 0
    output_tokens: int = 0
    web_search_requests: int = 0
    """Number of searches that the API ran and billed."""

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(*map(add, _counts(self), _counts(other)))

    @property
    def total_tokens(self) -> int:
        """Input of every kind plus output."""
        return self.input_tokens + self.cache_read_input_tokens + self.cache_creation_input_tokens + self.output_tokens


_counts = attrgetter(*(one.name for one in fields(Usage)))


class Stop(StrEnum):
    """Why a turn ended, in the loop's terms; providers map their stop reasons to these values."""

    ANSWERED = "answered"
    WANTS_TOOLS = "wants_tools"
    PAUSED = "paused"
    TRUNCATED = "truncated"
    REFUSED = "refused"


@dataclass(frozen=True)
class Reply:
    """One reply of the model."""

    stop: Stop
    content: tuple[Block, ...]
    """The blocks as received, thinking included; they are sent back unchanged."""
    usage: Usage = Usage()
    reason: str = ""
    """The stop reason of the provider."""
    detail: str = ""
    """Text of a warning about the reply; empty if there is none."""
    more_room_helps: bool = True
    """False if the turn was truncated because the context is full, so that a larger `max_tokens` does not help."""
    model: str = ""
    """Id of the model in the response; empty if it has none."""
    is_stop_known: bool = True
    """False if the provider's stop reason is unknown; then only the text of the reply is used."""

    @cached_property
    def text(self) -> str:
        """The text of the reply, without thinking."""
        return spoken(text_of(self.content)).strip()

    def with_warning(self, text: str) -> Self:
        """Return the reply with another warning; unchanged for an empty text."""
        return replace(self, detail=f"{self.detail}; {text}" if self.detail else text) if text else self

    @cached_property
    def calls(self) -> tuple[ToolCall, ...]:
        """The tool calls in the model's order."""
        return tuple(ToolCall.of(block) for block in self.content if block.get("type") == "tool_use")


# Read the calls of tools that an API runs itself from the blocks of a reply.
#
# The blocks are sent back to the API unchanged; they are read only for counting, for the store and for checking quotes.

USE = "server_tool_use"
_RESULT = "_tool_result"
# Error code of a use beyond `max_uses` of the tool, which is not run.
_REFUSED = "max_uses_exceeded"


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


def server_calls(content: Sequence[Block]) -> tuple[ServerCall, ...]:
    """Return the uses in a reply with their results, then the results of uses in earlier replies."""
    # Most replies have none, and this is asked several times a turn.
    if not any(block.get("type") == USE or is_result(block) for block in content):
        return ()
    results = {str(block.get("tool_use_id")): block for block in content if is_result(block)}
    cited = tuple(_citations(content))
    uses = (ToolCall.of(block) for block in content if block.get("type") == USE)
    made = [ServerCall(call, True, results.pop(call.id, None), cited) for call in uses]
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

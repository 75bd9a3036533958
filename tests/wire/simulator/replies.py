"""Scripted replies of the model, and the blocks they consist of.

Ids and signatures are added when a reply is issued, so a script does not contain them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .gates import Gate
from .prompt import Block


@dataclass(frozen=True)
class Reply:
    """Hold one turn of the model."""

    content: Sequence[Block]
    stop_reason: str | None = None
    """Any string; None means `tool_use` when a tool is called, else `end_turn`."""
    stop_sequence: str | None = None
    stop_details: Mapping[str, Any] | None = None
    usage: Mapping[str, Any] = field(default_factory=dict)
    """Fields that replace what was counted."""
    delay: float = 0.0
    """Time before the reply begins [s]; a gate is the better choice where one will do."""
    gate: Gate | None = None
    """Holds the reply back until it is opened."""
    midway: Gate | None = None
    """Holds back the second half of a streamed reply until it is opened."""
    cut_json: str | None = None
    """When streamed, the last tool call's arguments arrive as this text instead of whole JSON."""

    @property
    def reason(self) -> str:
        """Return the stop reason as sent."""
        if self.stop_reason is not None:
            return self.stop_reason
        return "tool_use" if any(block["type"] == "tool_use" for block in self.content) else "end_turn"


def text(words: str) -> Block:
    """Build a text block."""
    return {"type": "text", "text": words}


def thinking(words: str) -> Block:
    """Build a thinking block; its signature binds it to the prompt in front of it when it is issued."""
    return {"type": "thinking", "thinking": words, "signature": ""}


def redacted_thinking(label: str = "0") -> Block:
    """Build a redacted thinking block; `label` distinguishes two of them."""
    return {"type": "redacted_thinking", "data": label}


def tool_use(name: str, arguments: Mapping[str, Any] | None = None, *, call_id: str = "") -> Block:
    """Build a tool call; without `call_id` it gets an id when it is issued."""
    return {"type": "tool_use", "id": call_id, "name": name, "input": dict(arguments or {})}


def server_tool_use(name: str, arguments: Mapping[str, Any] | None = None) -> Block:
    """Build a call of a tool that the API runs itself, as seen in a paused turn."""
    return {"type": "server_tool_use", "id": "", "name": name, "input": dict(arguments or {})}


def searched(*found: tuple[str, str], error: str = "") -> Block:
    """Build the result of a search: titles with their addresses; the oldest search without a result gets it."""
    results = [
        {"type": "web_search_result", "title": title, "url": url, "encrypted_content": "", "page_age": None}
        for title, url in found
    ]
    failed = {"type": "web_search_tool_result_error", "error_code": error}
    return {"type": "web_search_tool_result", "tool_use_id": "", "content": failed if error else results}


def fetched(url: str, words: str = "", *, error: str = "") -> Block:
    """Build the result of reading a page; the oldest use without a result gets it."""
    source = {"type": "text", "media_type": "text/plain", "data": words}
    page = {"type": "web_fetch_result", "url": url, "content": {"type": "document", "source": source, "title": None}}
    failed = {"type": "web_fetch_tool_result_error", "error_code": error}
    return {"type": "web_fetch_tool_result", "tool_use_id": "", "content": failed if error else page}


def cited(words: str, url: str, passage: str) -> Block:
    """Build a text that rests on a passage of a search result."""
    place = {"type": "web_search_result_location", "url": url, "title": "", "encrypted_index": "x"}
    return {"type": "text", "text": words, "citations": [{**place, "cited_text": passage}]}


def respond(answer: str, **fields: Any) -> Block:
    """Build a call of `respond`."""
    return tool_use("respond", {"answer": answer, **fields})


def says(*blocks: Block | str, **options: Any) -> Reply:
    """Build a reply; a plain string is a text block, `options` are further fields of `Reply`."""
    return Reply([text(block) if isinstance(block, str) else block for block in blocks], **options)


def calls(name: str, *arguments: Mapping[str, Any], **options: Any) -> Reply:
    """Build a reply that calls one tool once for each of `arguments`."""
    return Reply([tool_use(name, given) for given in arguments], **options)


def answers(answer: str, **fields: Any) -> Reply:
    """Build a reply that calls `respond`."""
    return Reply([respond(answer, **fields)])


def cut_call(name: str, partial_json: str, kept: Mapping[str, Any] | None = None, *before: Block) -> Reply:
    """Build a reply that `max_tokens` cut within a call's arguments.

    partial_json: the arguments as streamed. kept: the arguments in a JSON reply, `{}` or a part of them.
    """
    return Reply([*before, tool_use(name, kept)], stop_reason="max_tokens", cut_json=partial_json)


def refuses(category: str | None = "cyber", *blocks: Block | str) -> Reply:
    """Build a refusal, which is a reply with status 200."""
    details = {"type": "refusal", "category": category, "explanation": None}
    return says(*blocks, stop_reason="refusal", stop_details=details)


def pauses(*blocks: Block | str) -> Reply:
    """Build a turn that the API paused; the caller sends it back as it is."""
    return says(*blocks, stop_reason="pause_turn")

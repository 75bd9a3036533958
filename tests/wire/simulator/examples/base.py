"""Valid requests, and the type of a rule's example."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.wire.simulator.prompt import Block

Body = dict[str, Any]
Next = Callable[[list[Block]], Body]
"""Makes the second request of a conversation from the content of the first reply."""

OPUS, HAIKU, OLDER = "claude-opus-5-5", "claude-haiku-5-5", "claude-opus-4-8"
SEARCH: Block = {"name": "search", "description": "Search.", "input_schema": {"type": "object"}}
RESPOND: Block = {"name": "respond", "input_schema": {"type": "object", "properties": {}}}
TOOLS = [SEARCH, RESPOND]
MARK = {"type": "ephemeral"}


def request(**fields: Any) -> Body:
    """Return a good request with some fields replaced; a field given as None is omitted."""
    whole = {"model": HAIKU, "max_tokens": 4096, "messages": [user("What do owls eat?")], **fields}
    return {name: value for name, value in whole.items() if value is not None}


def user(*content: Block | str) -> Body:
    """Return a user's message of strings and blocks."""
    return {"role": "user", "content": [words(part) if isinstance(part, str) else part for part in content]}


def assistant(*content: Block | str) -> Body:
    """Return an assistant's message of strings and blocks."""
    return {**user(*content), "role": "assistant"}


def words(text: str, **fields: Any) -> Block:
    """Return a text block."""
    return {"type": "text", "text": text, **fields}


def call(call_id: Any = "toolu_1", **fields: Any) -> Block:
    """Return a tool call."""
    return {"type": "tool_use", "id": call_id, "name": "search", "input": {"query": "owls"}, **fields}


def result(call_id: str = "toolu_1", content: Any = "mice", **fields: Any) -> Block:
    """Return a tool result."""
    return {"type": "tool_result", "tool_use_id": call_id, "content": content, **fields}


def chat(*messages: Body, **fields: Any) -> Body:
    """Return a request with tools and these messages behind the question."""
    return request(**{"tools": TOOLS, "messages": [user("What do owls eat?"), *messages], **fields})


@dataclass(frozen=True)
class Example:
    """Hold a request that breaks one rule and one that keeps it."""

    rule: str
    message: str
    """Part of what the API says."""
    wrong: Body | bytes | Next
    right: Body | Next
    headers: Mapping[str, str | None] | None = None
    """Headers of the wrong request."""
    path: str = "/v1/messages"
    method: str = "POST"
    opening: Body | None = None
    """Request whose reply the other two go on from."""

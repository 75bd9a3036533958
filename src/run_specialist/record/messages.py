"""What is said in a run: messages, tool calls, results, replies, usage. Frozen values, no I/O.

Content is kept in the block shape of the Messages API; a provider of another API converts it on its way out.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from typing import Any, Literal, Self

Block = Mapping[str, Any]
"""One content block in the shape of the Messages API, e.g. `{"type": "text", "text": "..."}`."""


_COMPACT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def encode(value: object) -> bytes:
    """Serialise a value as compact UTF-8 JSON; the same value always gives the same bytes."""
    return _COMPACT.encode(value).encode("utf-8", "replace")


def text_of(content: object) -> str:
    """Return the text of a message's content, found by type and never by position.

    content: a string, or blocks as mappings or as SDK objects; thinking of any kind is left out.
    """
    if isinstance(content, str):
        return content
    if not isinstance(content, Iterable):
        return ""
    texts = (_text_of_block(block) for block in content)
    return "\n".join(text for text in texts if text)


def _text_of_block(block: object) -> str:
    if isinstance(block, str):
        return block
    values = block if isinstance(block, Mapping) else vars(block) if hasattr(block, "__dict__") else {}
    text = values.get("text") if values.get("type") == "text" else None
    return text if isinstance(text, str) else ""


_THOUGHT = re.compile(
    r"\s*<think>.*?(?:</think>\s*|\Z)"  # opened at the very beginning, and closed or not
    r"|(?:(?!<think>).)*?^\s*</think>[ \t]*\n\s*",  # opened by the server's own template: the end has a line of its own
    re.DOTALL | re.MULTILINE,
)


def spoken(text: str) -> str:
    """Return a text without the reasoning that some servers leave at its beginning."""
    thought = _THOUGHT.match(text)
    return text[thought.end() :] if thought else text


def sendable(content: Iterable[Block]) -> tuple[Block, ...]:
    """Return a reply's blocks as the API takes them back; only what it would refuse is mended.

    An empty text goes, arguments that are no object become `{}`; thinking stays byte for byte.
    """
    kept = (block for block in content if block.get("type") != "text" or str(block.get("text", "")).strip())
    return tuple(
        {**block, "input": {}}
        if block.get("type") == "tool_use" and not isinstance(block.get("input"), Mapping)
        else block
        for block in kept
    )


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A model's wish to have one tool run."""

    id: str
    """Given by the model; its result must carry it."""
    name: str
    """The tool's name as the model wrote it; there may be no such tool."""
    arguments: Mapping[str, Any] | None
    """None when the model's arguments were no JSON object."""

    @property
    def key(self) -> str:
        """What makes two calls identical: name and arguments, whatever the order of the keys."""
        return f"{self.name} {json.dumps(self.arguments, sort_keys=True, default=str)}"


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The one answer to a tool call."""

    call_id: str
    """The `ToolCall.id` that it answers."""
    content: str
    """What the model reads, our own notices included."""
    is_error: bool = False
    """Marks a failed or skipped call to the model."""

    def block(self) -> Block:
        """Return the `tool_result` block."""
        block = {"type": "tool_result", "tool_use_id": self.call_id, "content": self.content}
        return {**block, "is_error": True} if self.is_error else block


@dataclass(frozen=True)
class Message:
    """One message of the transcript; it is serialised once and never edited."""

    role: Literal["user", "assistant"]
    blocks: tuple[Block, ...]
    """Its content without the landing instruction."""
    landing_instruction: str | None = None
    """Ends the message: what the model must do now that a limit is reached."""

    @classmethod
    def user(cls, text: str) -> Self:
        """Make a user message of one text."""
        return cls("user", ({"type": "text", "text": text},))

    @classmethod
    def results(cls, results: Iterable[ToolResult]) -> Self:
        """Make the user message that answers all calls of a turn."""
        return cls("user", tuple(result.block() for result in results))

    def with_instruction(self, landing_instruction: str | None) -> "Message":
        """Return the message with a landing instruction at its end; None or empty changes nothing."""
        return replace(self, landing_instruction=landing_instruction) if landing_instruction else self

    @cached_property
    def content(self) -> tuple[Block, ...]:
        """The blocks as they are sent: text and landing instruction are appended to the last result, if there is one.

        Text after results teaches a model to end with an empty turn.
        """
        if self.role == "assistant":
            return self.blocks
        texts = [block["text"] for block in self.blocks if block["type"] == "text"]
        results = [block for block in self.blocks if block["type"] != "text"]
        lines = [*texts, *([self.landing_instruction] if self.landing_instruction else [])]
        if not results or not lines:
            return (
                self.blocks
                if results or not self.landing_instruction
                else ({"type": "text", "text": "\n".join(lines)},)
            )
        return (*results[:-1], {**results[-1], "content": "\n".join([results[-1]["content"], *lines])})

    @cached_property
    def encoded(self) -> bytes:
        """The message as JSON bytes, the same in every request."""
        return encode({"role": self.role, "content": self.content})


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens that were billed; the whole input is the sum of the first three."""

    input_tokens: int = 0
    """Input neither read from nor written to the prompt cache."""
    cache_read_input_tokens: int = 0
    cache_creation_input_tokens: int = 0
    output_tokens: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.input_tokens + other.input_tokens,
            self.cache_read_input_tokens + other.cache_read_input_tokens,
            self.cache_creation_input_tokens + other.cache_creation_input_tokens,
            self.output_tokens + other.output_tokens,
        )

    @property
    def total_tokens(self) -> int:
        """Input of every kind and output together."""
        return self.input_tokens + self.cache_read_input_tokens + self.cache_creation_input_tokens + self.output_tokens


class Stop(StrEnum):
    """Why a turn ended, in the five words that the loop knows."""

    ANSWERED = "answered"
    WANTS_TOOLS = "wants_tools"
    PAUSED = "paused"
    TRUNCATED = "truncated"
    REFUSED = "refused"


@dataclass(frozen=True)
class Reply:
    """One turn of the model."""

    stop: Stop
    content: tuple[Block, ...]
    """The blocks exactly as they came, thinking included; they go back as they are."""
    usage: Usage = Usage()
    reason: str = ""
    """The provider's own word for why the turn ended."""
    detail: str = ""
    """What is odd about it and worth a warning."""
    more_room_helps: bool = True
    """False for a turn that was cut because the whole context is full."""
    model: str = ""
    """Which one wrote it, by its own word; empty where that is not told."""

    @cached_property
    def text(self) -> str:
        """The text that a person may read; never thinking."""
        return spoken(text_of(self.content)).strip()

    @cached_property
    def calls(self) -> tuple[ToolCall, ...]:
        """The tool calls in the order in which the model made them."""
        return tuple(
            ToolCall(
                id=str(block.get("id", "")),
                name=str(block.get("name", "")),
                arguments=block["input"] if isinstance(block.get("input"), Mapping) else None,
            )
            for block in self.content
            if block.get("type") == "tool_use"
        )

"""The conversation of a run: messages, tool calls, results, replies, usage. Frozen values, no I/O.

Content has the block format of the Messages API; providers of other APIs convert it.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from typing import Any, Literal, Self

from run_specialist.record.blocks import Block, spoken, text_of

CallFormat = Literal["native", "json"]
"""How a model calls tools: natively, as its API defines, or as JSON in the text of its reply."""

_COMPACT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def encode(value: object) -> bytes:
    """Serialize a value as compact UTF-8 JSON; the same value always gives the same bytes."""
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


class _ComputedOnce:
    """Slots for the values that a message caches; an instance dictionary would burden the garbage collector."""

    __slots__ = ("_content", "_encoded")
    _content: tuple[Block, ...]
    _encoded: bytes


@dataclass(frozen=True, slots=True)
class Message(_ComputedOnce):
    """One message of the transcript; serialized once and never edited."""

    role: Literal["user", "assistant"]
    blocks: tuple[Block, ...]
    """The content without the landing instruction."""
    landing_instruction: str | None = None
    """Instruction at the end of the message, once a limit is reached."""

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
    def content(self) -> tuple[Block, ...]:
        """The blocks as sent: text and landing instruction are appended to the last result, if any.

        A separate text block after results would teach the model to end its turn without an answer.
        """
        if not hasattr(self, "_content"):
            object.__setattr__(self, "_content", self._joined())
        return self._content

    def _joined(self) -> tuple[Block, ...]:
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

    @property
    def encoded(self) -> bytes:
        """The message as JSON bytes, the same in every request."""
        if not hasattr(self, "_encoded"):
            object.__setattr__(self, "_encoded", encode({"role": self.role, "content": self.content}))
        return self._encoded


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
        return Usage(
            self.input_tokens + other.input_tokens,
            self.cache_read_input_tokens + other.cache_read_input_tokens,
            self.cache_creation_input_tokens + other.cache_creation_input_tokens,
            self.output_tokens + other.output_tokens,
            self.web_search_requests + other.web_search_requests,
        )

    @property
    def total_tokens(self) -> int:
        """Input of every kind plus output."""
        return self.input_tokens + self.cache_read_input_tokens + self.cache_creation_input_tokens + self.output_tokens


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
        return tuple(
            ToolCall(
                id=str(block.get("id", "")),
                name=str(block.get("name", "")),
                arguments=block["input"] if isinstance(block.get("input"), Mapping) else None,
            )
            for block in self.content
            if block.get("type") == "tool_use"
        )

"""Split a transcript into turns: the text and calls of the model, with the results. No I/O."""

import json
import re
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from run_specialist.record.blocks import Block, text_of
from run_specialist.record.messages import CompletedCall, Message, ToolCall
from run_specialist.record.server_calls import USE, is_result, server_calls
from run_specialist.tools.archive import SUMMARIZE

_SUMMARY_ID = re.compile(rf"{SUMMARIZE}_(\d+)")
_THINKING = ("thinking", "redacted_thinking")


def archived_placeholder(execution_id: str) -> str:
    """Return the text that replaces an archived output in the transcript."""
    return f"SUMMARIZED executionId:'{execution_id}'"


@dataclass(frozen=True, slots=True)
class TextPart:
    """Text of the user or the model, neither call nor result."""

    role: Literal["user", "assistant"]
    text: str


TurnPart = TextPart | CompletedCall
"""A call and its result are never separated."""


@dataclass(frozen=True)
class Turn:
    """One turn of the model: its text and calls, with the results and any text of the user."""

    parts: tuple[TurnPart, ...]
    """The parts in order, each call with its result; thinking is omitted."""
    messages: tuple[Message, ...] = ()
    """The messages that the turn was parsed from; empty for a turn from a flattened message."""

    @property
    def pairs(self) -> tuple[CompletedCall, ...]:
        """The calls with their results."""
        return tuple(part for part in self.parts if isinstance(part, CompletedCall))

    @property
    def work(self) -> tuple[CompletedCall, ...]:
        """The calls that the model made itself; the call that holds an earlier summary is not among them."""
        return self.pairs if self.summary is None else ()

    @property
    def fresh(self) -> tuple[CompletedCall, ...]:
        """The calls whose outputs are not archived yet."""
        return tuple(pair for pair in self.work if pair.result != archived_placeholder(pair.call.id))

    @property
    def by_user(self) -> tuple[TextPart, ...]:
        """The texts of the user; they are never summarized."""
        return tuple(part for part in self.parts if isinstance(part, TextPart) and part.role == "user")

    @cached_property
    def summary(self) -> str | None:
        """The summary, if the turn is the pair of messages that an earlier pass inserted; otherwise None."""
        if len(self.pairs) != 1 or self.pairs[0].call.name != SUMMARIZE:
            return None
        (pair,) = self.pairs
        return pair.result if _SUMMARY_ID.fullmatch(pair.call.id) else None

    @property
    def without_outputs(self) -> tuple[Message, ...]:
        """The messages with each output replaced by its placeholder; empty for an earlier summary, which is dropped."""
        if self.summary is not None:
            return ()
        ids = {pair.call.id for pair in self.fresh}
        return tuple(_archived(message, ids) for message in self.messages)


def turns(messages: Sequence[Message]) -> tuple[Turn, ...]:
    """Group the messages after the question into turns; paused replies belong to the turn that completed them."""
    groups: list[list[Message]] = []
    for message in messages:
        if not groups or (message.role == "assistant" and groups[-1][-1].role == "user"):
            groups.append([])
        groups[-1].append(message)
    return tuple(Turn(tuple(_parts(group)), tuple(group)) for group in groups)


def _parts(messages: Sequence[Message]) -> Iterator[TurnPart]:
    results: defaultdict[object, deque[Block]] = defaultdict(deque)
    for block in _blocks(messages, "tool_result"):
        results[block.get("tool_use_id")].append(block)
    for message in messages:
        # A use without a result has nothing to keep.
        ran = (use for use in server_calls(message.blocks) if use.result is not None)
        uses = {use.call.id: (CompletedCall(use.call, use.text, bool(use.error)),) for use in ran}
        for block in message.blocks:
            kind = block.get("type")
            if kind == "text":
                yield TextPart(message.role, str(block.get("text", "")))
            elif kind == "tool_use":
                waiting = results[block.get("id")]
                yield _pair(block, waiting.popleft() if waiting else {})
            elif kind == USE or is_result(block):
                yield from uses.pop(str(block.get("id" if kind == USE else "tool_use_id")), ())
            elif kind not in {"tool_result", *_THINKING}:
                yield TextPart(message.role, _json(block))


def _pair(call: Block, result: Block) -> CompletedCall:
    given = call.get("input")
    arguments = given if isinstance(given, Mapping) else None
    tool_call = ToolCall(str(call.get("id", "")), str(call.get("name", "")), arguments)
    return CompletedCall(tool_call, text_of(result.get("content")), bool(result.get("is_error")))


def is_bound(messages: Sequence[Message]) -> bool:
    """Return True if a reply contains blocks such as thinking, which forbid editing the turns before them."""
    return any(
        block.get("type") not in {"text", "tool_use"}
        for message in messages
        if message.role == "assistant"
        for block in message.blocks
    )


def _archived(message: Message, ids: AbstractSet[str]) -> Message:
    if not any(block.get("tool_use_id") in ids for block in message.blocks):
        return message
    # The landing instruction is dropped: it applied to a reply that has already arrived.
    return Message(
        message.role,
        tuple(
            {**block, "content": archived_placeholder(block["tool_use_id"])}
            if block.get("tool_use_id") in ids
            else block
            for block in message.blocks
        ),
    )


def summary_pair(summary: str, count: int, before: Sequence[Message]) -> tuple[Message, Message]:
    """Return the messages that hold a summary: a call of the tool that summarizes, and its result.

    count: archived outputs.
    before: the history, whose call ids are not reused.
    """
    ids = {str(block.get("id")) for block in _blocks(before, "tool_use")}
    number = 1 + max((int(match[1]) for each in ids if (match := _SUMMARY_ID.fullmatch(each))), default=0)
    call_id = f"{SUMMARIZE}_{number}"
    call = {"type": "tool_use", "id": call_id, "name": SUMMARIZE, "input": {"archived": count}}
    result = {"type": "tool_result", "tool_use_id": call_id, "content": summary}
    return Message("assistant", (call,)), Message("user", (result,))


def characters(messages: Sequence[Message]) -> int:
    """Return the length of the text that the model reads in these messages [characters]."""
    return sum(_length(block) for message in messages for block in message.content)


def _length(block: Block) -> int:
    match block.get("type"):
        case "text" | "thinking" as kind:
            return len(str(block.get(kind, "")))
        case "tool_use":
            return len(str(block.get("name", ""))) + len(_json(block.get("input")))
        case "tool_result":
            return len(text_of(block.get("content")))
        case _:
            return len(_json(block))


def _blocks(messages: Sequence[Message], kind: str) -> Iterator[Block]:
    return (block for message in messages for block in message.content if block.get("type") == kind)


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))

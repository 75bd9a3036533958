"""A transcript as turns: what the model wrote and called, and what came back. Pure."""

import json
import re
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from run_specialist.record.messages import Block, Message, ToolCall, text_of
from run_specialist.tools.archive import SUMMARIZE

_SUMMARY_ID = re.compile(rf"{SUMMARIZE}_(\d+)")
_THINKING = ("thinking", "redacted_thinking")


def summarized(execution_id: str) -> str:
    """Return what stands in the place of an output that is archived."""
    return f"SUMMARIZED executionId:'{execution_id}'"


@dataclass(frozen=True, slots=True)
class Said:
    """Words that are neither a call nor a result."""

    role: Literal["user", "assistant"]
    text: str


@dataclass(frozen=True, slots=True)
class Pair:
    """A call and its result; they are never parted."""

    call: ToolCall
    result: str = ""
    is_error: bool = False

    @property
    def is_archived(self) -> bool:
        """True when the result only says where the output is."""
        return self.result == summarized(self.call.id)


Part = Said | Pair


@dataclass(frozen=True)
class Turn:
    """What the model wrote and called in one go, with the results and whatever the user said then."""

    parts: tuple[Part, ...]
    """In order, a result beside its call; thinking is left out."""
    messages: tuple[Message, ...] = ()
    """What it was read from; empty for a turn that is only retold."""

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """The calls with their results."""
        return tuple(part for part in self.parts if isinstance(part, Pair))

    @property
    def work(self) -> tuple[Pair, ...]:
        """The calls that the model made itself."""
        return self.pairs if self.summary is None else ()

    @property
    def fresh(self) -> tuple[Pair, ...]:
        """The calls whose outputs stand here and nowhere else."""
        return tuple(pair for pair in self.work if not pair.is_archived)

    @property
    def by_user(self) -> tuple[Said, ...]:
        """What the user said; it is never summarised."""
        return tuple(part for part in self.parts if isinstance(part, Said) and part.role == "user")

    @cached_property
    def summary(self) -> str | None:
        """The summary, where the turn is the pair of messages that an earlier pass has put in."""
        if len(self.pairs) != 1 or self.pairs[0].call.name != SUMMARIZE:
            return None
        (pair,) = self.pairs
        return pair.result if _SUMMARY_ID.fullmatch(pair.call.id) else None

    @property
    def without_outputs(self) -> tuple[Message, ...]:
        """Its messages with every output archived; none of an earlier summary, which goes as a whole."""
        if self.summary is not None:
            return ()
        ids = {pair.call.id for pair in self.fresh}
        return tuple(_archived(message, ids) for message in self.messages)


def turns(messages: Sequence[Message]) -> tuple[Turn, ...]:
    """Read what follows the question; replies that paused belong to the turn that they ended in."""
    groups: list[list[Message]] = []
    for message in messages:
        if not groups or (message.role == "assistant" and groups[-1][-1].role == "user"):
            groups.append([])
        groups[-1].append(message)
    return tuple(Turn(tuple(_parts(group)), tuple(group)) for group in groups)


def _parts(messages: Sequence[Message]) -> Iterator[Part]:
    results: defaultdict[object, deque[Block]] = defaultdict(deque)
    for block in _blocks(messages, "tool_result"):
        results[block.get("tool_use_id")].append(block)
    for message in messages:
        for block in message.blocks:
            kind = block.get("type")
            if kind == "text":
                yield Said(message.role, str(block.get("text", "")))
            elif kind == "tool_use":
                waiting = results[block.get("id")]
                yield _pair(block, waiting.popleft() if waiting else {})
            elif kind not in {"tool_result", *_THINKING}:
                yield Said(message.role, _json(block))


def _pair(call: Block, result: Block) -> Pair:
    given = call.get("input")
    made = ToolCall(str(call.get("id", "")), str(call.get("name", "")), given if isinstance(given, Mapping) else None)
    return Pair(made, text_of(result.get("content")), bool(result.get("is_error")))


def is_bound(messages: Sequence[Message]) -> bool:
    """Tell whether a reply holds more than text and calls: such blocks bind the history before them as it is."""
    return any(
        block.get("type") not in {"text", "tool_use"}
        for message in messages
        if message.role == "assistant"
        for block in message.blocks
    )


def _archived(message: Message, ids: AbstractSet[str]) -> Message:
    if not any(block.get("tool_use_id") in ids for block in message.blocks):
        return message
    # Our last words in it were meant for the reply that has long come.
    return Message(
        message.role,
        tuple(
            {**block, "content": summarized(block["tool_use_id"])} if block.get("tool_use_id") in ids else block
            for block in message.blocks
        ),
    )


def summary_pair(summary: str, count: int, before: Sequence[Message]) -> tuple[Message, Message]:
    """Make the messages in which a summary stands: a call that asks for it, and its result.

    count: how many outputs were archived.
    before: the history; no id of it is taken.
    """
    ids = {str(block.get("id")) for block in _blocks(before, "tool_use")}
    number = 1 + max((int(found[1]) for one in ids if (found := _SUMMARY_ID.fullmatch(one))), default=0)
    call_id = f"{SUMMARIZE}_{number}"
    call = {"type": "tool_use", "id": call_id, "name": SUMMARIZE, "input": {"archived": count}}
    result = {"type": "tool_result", "tool_use_id": call_id, "content": summary}
    return Message("assistant", (call,)), Message("user", (result,))


def characters(messages: Sequence[Message]) -> int:
    """Count what a model reads of these messages."""
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

"""Plan how a transcript is shortened: its turns, what a pass removes, and one flattened message. Pure."""

import json
import math
import re
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, NamedTuple, Self, TypeVar

from run_specialist.record.messages import (
    USE,
    Block,
    CompletedCall,
    Message,
    ToolCall,
    encode,
    is_result,
    server_calls,
    text_of,
)
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


# A call and its result are never separated.
_TurnPart = TextPart | CompletedCall


@dataclass(frozen=True)
class Turn:
    """One turn of the model: its text and calls, with the results and any text of the user."""

    parts: tuple[_TurnPart, ...]
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


def _parts(messages: Sequence[Message]) -> Iterator[_TurnPart]:
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
                result: Block = waiting.popleft() if waiting else {}
                text = text_of(result.get("content"))
                yield CompletedCall(ToolCall.of(block), text, bool(result.get("is_error")))
            elif kind == USE or is_result(block):
                yield from uses.pop(str(block.get("id" if kind == USE else "tool_use_id")), ())
            elif kind not in {"tool_result", *_THINKING}:
                yield TextPart(message.role, _json(block))


def is_bound(messages: Sequence[Message]) -> bool:
    """Return True if a reply contains blocks such as thinking, which forbid editing the turns before them."""
    replies = (message.blocks for message in messages if message.role == "assistant")
    return any(block.get("type") not in {"text", "tool_use"} for blocks in replies for block in blocks)


def _archived(message: Message, ids: AbstractSet[str]) -> Message:
    if not any(block.get("tool_use_id") in ids for block in message.blocks):
        return message
    # The landing instruction is dropped: it applied to a reply that has already arrived.
    blocks = [
        {**block, "content": archived_placeholder(block["tool_use_id"])} if block.get("tool_use_id") in ids else block
        for block in message.blocks
    ]
    return Message(message.role, tuple(blocks))


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
    return sum(_block_length(block) for message in messages for block in message.content)


def _block_length(block: Block) -> int:
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


# Flatten a transcript into one user message, for models whose thinking blocks forbid editing the turns before them.
#
# The next pass parses the message, so each part is a separate block with a label. The labels are defined here, and not
# in `prompts`, because they are a format. Text inside a block cannot be mistaken for another block. No I/O.

SUMMARY = "Your work on this until now, as a summary; the outputs themselves are archived:\n"
ARCHIVED = "Your calls whose outputs are archived; get_tool_response reads one again by its executionId:\n"
# Maximum length of the arguments in the line of an archived call [characters].
_LONGEST_ARGUMENTS = 300

_LABELS: dict[Literal["user", "assistant"], str] = {"user": "The user wrote:\n", "assistant": "Written on the way:\n"}
_CALL = re.compile(r"Tool call (\{[^\n]*\}) (returned|failed):\n")


@dataclass(frozen=True)
class FlattenedTranscript:
    """The first user message: the question, and the work so far if the transcript was flattened into it."""

    question: tuple[Block, ...]
    """The blocks of the user's question."""
    summary: str = ""
    """Empty if the message contains only the question."""
    archived: tuple[str, ...] = ()
    """One line for each call whose output is archived."""
    parts: tuple[_TurnPart, ...] = ()
    """The parts kept in full."""

    @classmethod
    def of(cls, message: Message) -> Self:
        """Parse a first user message, flattened or not."""
        blocks = message.blocks
        start = next((i for i, block in enumerate(blocks) if i and _text(block).startswith(SUMMARY)), len(blocks))
        summary, lines, *rest = [*(_text(block) for block in blocks[start:]), "", ""]
        archived = tuple(filter(None, lines.removeprefix(ARCHIVED).split("\n")))
        return cls(blocks[:start], summary.removeprefix(SUMMARY), archived, tuple(_part(text) for text in rest if text))

    def message(self) -> Message:
        """Return the message."""
        texts = (SUMMARY + self.summary, ARCHIVED + "\n".join(self.archived), *map(labeled, self.parts))
        return Message("user", (*self.question, *({"type": "text", "text": text} for text in texts)))


def _by_call(parts: Iterable[_TurnPart]) -> list[tuple[_TurnPart, ...]]:
    """Group parts so that each group ends with a call; text after the last call is a group without one."""
    groups: list[list[_TurnPart]] = [[]]
    for part in parts:
        groups[-1].append(part)
        if isinstance(part, CompletedCall):
            groups.append([])
    return [tuple(group) for group in groups if group]


def labeled(part: _TurnPart) -> str:
    """Return a part as text under its label."""
    if isinstance(part, TextPart):
        return _LABELS[part.role] + part.text
    call = encode({"id": part.call.id, "name": part.call.name, "input": part.call.arguments}).decode()
    return f"Tool call {call} {'failed' if part.is_error else 'returned'}:\n{part.result}"


def archived_line(pair: CompletedCall) -> str:
    """Return the line that shows a call whose output is archived."""
    arguments = encode(pair.call.arguments).decode()
    if len(arguments) > _LONGEST_ARGUMENTS:
        arguments = arguments[:_LONGEST_ARGUMENTS] + " …"
    return f"{pair.call.name} {arguments} -> {archived_placeholder(pair.call.id)}".replace("\n", " ")


def _part(text: str) -> _TurnPart:
    for role, label in _LABELS.items():
        if text.startswith(label):
            return TextPart(role, text.removeprefix(label))
    if match := _CALL.match(text):
        values = json.loads(match[1])
        call = ToolCall(values["id"], values["name"], values["input"])
        return CompletedCall(call, text[match.end() :], is_error=match[2] == "failed")
    return TextPart("user", text)


def _text(block: Block) -> str:
    return str(block.get("text", ""))


CHARACTERS_PER_TOKEN = 4
"""Length of a token in estimates [characters]."""

_T = TypeVar("_T")


def estimate(messages: Sequence[Message]) -> int:
    """Return the estimated size of messages in a request [tokens]."""
    return tokens(characters(messages))


def tokens(length: int) -> int:
    """Return the estimated number of tokens in a text of this length.

    length: of the text [characters].
    """
    return math.ceil(length / CHARACTERS_PER_TOKEN)


def packed(items: Sequence[_T], size: Callable[[_T], int], limit: int) -> tuple[tuple[_T, ...], ...]:
    """Group neighboring items up to a total size per group; a larger item is a group by itself."""
    groups: list[list[_T]] = []
    available = 0
    for item in items:
        if not groups or size(item) > available:
            groups.append([])
            available = limit
        groups[-1].append(item)
        available -= size(item)
    return tuple(tuple(group) for group in groups)


class CallUnit(NamedTuple):
    """A call with its result and the text before it; never split between requests."""

    text: str
    """The unit as a model reads it."""
    calls: tuple[ToolCall, ...]
    """The call; empty if the model only wrote text."""


@dataclass(frozen=True)
class CompactionPlan:
    """The changes that one pass makes to a transcript."""

    history: tuple[Message, ...]
    """The transcript before the pass."""
    old: tuple[Turn, ...]
    """Turns that the summary replaces, including those that an earlier summary covers."""
    kept: tuple[Turn, ...]
    """Turns that stay in full."""
    chunks: tuple[tuple[CallUnit, ...], ...]
    """The units of each request for notes; every archived output is in exactly one."""
    is_flattened: bool
    """True if the transcript becomes one user message, because thinking blocks forbid editing the history."""

    @property
    def question(self) -> str:
        """The question of the user, with all follow-up questions."""
        added = (part.text for turn in (*self.old, *self.kept) for part in turn.by_user)
        return "\n\n".join([text_of(self._head.question), *added])

    @property
    def earlier(self) -> str:
        """The summaries of earlier passes; empty in the first pass."""
        return "\n\n".join(text for text in (self._head.summary, *(turn.summary for turn in self.old)) if text)

    @property
    def archived(self) -> tuple[CompletedCall, ...]:
        """The pairs whose outputs are archived in this pass, oldest first."""
        return tuple(pair for turn in self.old for pair in turn.fresh)

    def rebuild(self, summary: str) -> list[Message]:
        """Return the transcript with the summary in place of the old turns; unchanged messages are the same objects."""
        if self.is_flattened:
            lines = (archived_line(pair) for turn in self.old for pair in turn.work)
            by_user = (part for turn in self.old for part in turn.by_user)
            kept = (part for turn in self.kept for part in turn.parts)
            archived = (*self._head.archived, *lines)
            return [replace(self._head, summary=summary, archived=archived, parts=(*by_user, *kept)).message()]
        return [
            self.history[0],
            *(message for turn in self.old for message in turn.without_outputs),
            *summary_pair(summary, len(self.archived), self.history),
            *(message for turn in self.kept for message in turn.messages),
        ]

    @cached_property
    def _head(self) -> FlattenedTranscript:
        return FlattenedTranscript.of(self.history[0])


def plan(
    history: Sequence[Message], *, size: int, target: int, summary_limit: int, chunk_size: int
) -> CompactionPlan | None:
    """Plan to summarize the oldest turns, at least one, until the rest fits; None if there is nothing to summarize.

    size: estimated size of the next request [tokens].
    target: size to reduce it to, including the summary [tokens].
    summary_limit: maximum size of the summary [tokens].
    chunk_size: maximum size of one request for notes; a larger unit is sent by itself [tokens].
    """
    if not history or history[0].role != "user":
        return None
    head = FlattenedTranscript.of(history[0])
    all_turns = (*map(Turn, _by_call(head.parts)), *turns(history[1:]))
    # The model still works on its newest turn with calls; turns from a flattened message are older.
    newest = max((index for index, turn in enumerate(all_turns) if turn.pairs and turn.messages), default=0)
    fresh = [index for index, turn in enumerate(all_turns[:newest]) if turn.fresh]
    if not fresh:
        return None
    is_flattened = bool(head.summary) or is_bound(history)
    in_full = [_length(turn, is_old=False, is_flattened=is_flattened) for turn in all_turns]
    shortened = [_length(turn, is_old=True, is_flattened=is_flattened) for turn in all_turns]
    # The size includes the system prompt and the tools, which cannot be shortened.
    available = target - summary_limit - max(size - estimate(history), 0)
    length = len(text_of(head.question)) + sum(in_full)
    cut = 0
    while cut <= fresh[0] or (cut < newest and tokens(length) > available):
        length += shortened[cut] - in_full[cut]
        cut += 1
    old = all_turns[:cut]
    # An earlier summary already covers the turns before it.
    start = 1 + max((index for index, turn in enumerate(old) if turn.summary is not None), default=-1)
    units = [unit for turn in old[start:] for unit in _units(turn)]
    chunks = packed(units, lambda unit: tokens(len(unit.text)), chunk_size)
    return CompactionPlan(tuple(history), old, all_turns[cut:], chunks, is_flattened)


def _length(turn: Turn, *, is_old: bool, is_flattened: bool) -> int:
    """Return the length of a turn in the new transcript [characters]."""
    if not is_flattened:
        return characters(turn.without_outputs if is_old else turn.messages)
    parts = turn.by_user if is_old else turn.parts
    return sum(len(labeled(part)) for part in parts) + sum(len(archived_line(pair)) for pair in turn.work if is_old)


def _units(turn: Turn) -> list[CallUnit]:
    """Return each call of a turn with the text before it; text after the last call belongs to that call."""
    groups = _by_call(part for part in turn.parts if part not in turn.by_user)
    if len(groups) > 1 and not isinstance(groups[-1][-1], CompletedCall):
        groups[-2:] = [groups[-2] + groups[-1]]
    texts = ("\n\n".join(map(labeled, parts)) for parts in groups)
    calls = (tuple(part.call for part in parts if isinstance(part, CompletedCall)) for parts in groups)
    return list(map(CallUnit, texts, calls))

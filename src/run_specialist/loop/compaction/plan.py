"""Plan one pass of compaction: choose the turns to summarize, and rebuild the transcript from the summary. No I/O."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

from run_specialist.loop.compaction.flattened import FlattenedTranscript, archived_line, labeled
from run_specialist.loop.compaction.turns import Turn, TurnPart, characters, is_bound, summary_pair, turns
from run_specialist.record.blocks import text_of
from run_specialist.record.messages import CompletedCall, Message, ToolCall, Usage

CHARACTERS_PER_TOKEN = 4
"""Length of a token in estimates [characters]."""

_T = TypeVar("_T")


def estimate(last: Usage | None, later: Sequence[Message]) -> int:
    """Return the estimated size of the next request [tokens].

    last: usage of the last reply; None before the first.
    later: messages since that reply.
    """
    return (last.total_tokens if last else 0) + tokens(characters(later))


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


@dataclass(frozen=True)
class CallUnit:
    """A call with its result and the text before it; never split between requests."""

    parts: tuple[TurnPart, ...]

    @cached_property
    def text(self) -> str:
        """The unit as a model reads it."""
        return "\n\n".join(labeled(part) for part in self.parts)

    @property
    def tokens(self) -> int:
        """Estimated size of the text [tokens]."""
        return tokens(len(self.text))

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The call; empty if the model only wrote text."""
        return tuple(part.call for part in self.parts if isinstance(part, CompletedCall))


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
    all_turns = (*head.turns, *turns(history[1:]))
    # The model still works on its newest turn with calls; turns from a flattened message are older.
    newest = max((index for index, turn in enumerate(all_turns) if turn.pairs and turn.messages), default=0)
    fresh = [index for index, turn in enumerate(all_turns[:newest]) if turn.fresh]
    if not fresh:
        return None
    is_flattened = bool(head.summary) or is_bound(history)
    in_full = [_length(turn, is_old=False, is_flattened=is_flattened) for turn in all_turns]
    shortened = [_length(turn, is_old=True, is_flattened=is_flattened) for turn in all_turns]
    # The size includes the system prompt and the tools, which cannot be shortened.
    available = target - summary_limit - max(size - estimate(None, history), 0)
    length = len(text_of(head.question)) + sum(in_full)
    cut = 0
    while cut <= fresh[0] or (cut < newest and tokens(length) > available):
        length += shortened[cut] - in_full[cut]
        cut += 1
    old = all_turns[:cut]
    # An earlier summary already covers the turns before it.
    start = 1 + max((index for index, turn in enumerate(old) if turn.summary is not None), default=-1)
    units = [unit for turn in old[start:] for unit in _units(turn)]
    chunks = packed(units, lambda unit: unit.tokens, chunk_size)
    return CompactionPlan(tuple(history), old, all_turns[cut:], chunks, is_flattened)


def _length(turn: Turn, *, is_old: bool, is_flattened: bool) -> int:
    """Return the length of a turn in the new transcript [characters]."""
    if not is_flattened:
        return characters(turn.without_outputs if is_old else turn.messages)
    parts = turn.by_user if is_old else turn.parts
    return sum(len(labeled(part)) for part in parts) + sum(len(archived_line(pair)) for pair in turn.work if is_old)


def _units(turn: Turn) -> Iterator[CallUnit]:
    """Yield each call of a turn with the text before it; text after the last call belongs to that call."""
    units: list[list[TurnPart]] = []
    pending: list[TurnPart] = []
    for part in turn.parts:
        if part in turn.by_user:
            continue
        pending.append(part)
        if isinstance(part, CompletedCall):
            units.append(pending)
            pending = []
    if units:
        units[-1] += pending
    elif pending:
        units.append(pending)
    return (CallUnit(tuple(parts)) for parts in units)

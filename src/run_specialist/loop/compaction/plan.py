"""What is summarised when a transcript grows too long, and what then stands in its place. A pure plan."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

from run_specialist.loop.compaction.flattened import Flattened, line, told
from run_specialist.loop.compaction.turns import Pair, Part, Turn, characters, is_bound, summary_pair, turns
from run_specialist.record.messages import Message, ToolCall, Usage, text_of

CHARACTERS_A_TOKEN = 4
"""What an estimate takes a token for."""

_T = TypeVar("_T")


def estimate(last: Usage | None, later: Sequence[Message]) -> int:
    """Return about how many tokens the next request has.

    last: of the last reply; None where there is none yet.
    later: what came after it.
    """
    return (last.total_tokens if last else 0) + tokens(characters(later))


def tokens(length: int) -> int:
    """Return about how many tokens so many characters have."""
    return math.ceil(length / CHARACTERS_A_TOKEN)


def packed(items: Sequence[_T], size: Callable[[_T], int], most: int) -> tuple[tuple[_T, ...], ...]:
    """Put neighbours together as long as they stay within a size; a larger item stands alone."""
    groups: list[list[_T]] = []
    room = 0
    for item in items:
        if not groups or size(item) > room:
            groups.append([])
            room = most
        groups[-1].append(item)
        room -= size(item)
    return tuple(tuple(group) for group in groups)


@dataclass(frozen=True)
class CallUnit:
    """A call with its result, and what the model wrote before it; never parted."""

    parts: tuple[Part, ...]

    @cached_property
    def text(self) -> str:
        """The unit as a model reads it."""
        return "\n\n".join(told(part) for part in self.parts)

    @property
    def tokens(self) -> int:
        """About how many it has."""
        return tokens(len(self.text))

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """Its call; none where the model only wrote something."""
        return tuple(part.call for part in self.parts if isinstance(part, Pair))


@dataclass(frozen=True)
class Plan:
    """What one pass does to a transcript."""

    history: tuple[Message, ...]
    """The transcript as it is."""
    old: tuple[Turn, ...]
    """What the summary will stand for; those that an earlier one stands for are among it."""
    kept: tuple[Turn, ...]
    """What stays whole."""
    chunks: tuple[tuple[CallUnit, ...], ...]
    """What goes into one request each; every output that is archived is in exactly one."""
    retold: bool
    """True where all becomes one user message, because thinking binds the history."""

    @property
    def question(self) -> str:
        """What the user wants to know, whatever was added later included."""
        added = (said.text for turn in (*self.old, *self.kept) for said in turn.by_user)
        return "\n\n".join([text_of(self._head.question), *added])

    @property
    def earlier(self) -> str:
        """What earlier passes made of the beginning; empty on the first one."""
        return "\n\n".join(text for text in (self._head.summary, *(turn.summary for turn in self.old)) if text)

    @property
    def archived(self) -> tuple[Pair, ...]:
        """The pairs whose outputs leave the transcript, the oldest first."""
        return tuple(pair for turn in self.old for pair in turn.fresh)

    def rebuild(self, summary: str) -> list[Message]:
        """Return the transcript with a summary in place of what is old; a message that stays is the same object."""
        if self.retold:
            lines = (line(pair) for turn in self.old for pair in turn.work)
            users = (said for turn in self.old for said in turn.by_user)
            kept = (part for turn in self.kept for part in turn.parts)
            head = replace(self._head, summary=summary, archived=(*self._head.archived, *lines), parts=(*users, *kept))
            return [head.message()]
        return [
            self.history[0],
            *(message for turn in self.old for message in turn.without_outputs),
            *summary_pair(summary, len(self.archived), self.history),
            *(message for turn in self.kept for message in turn.messages),
        ]

    @cached_property
    def _head(self) -> Flattened:
        return Flattened.of(self.history[0])


def plan(history: Sequence[Message], *, size: int, target: int, summary_limit: int, chunk_size: int) -> Plan | None:
    """Say what to summarise: the oldest turns until the rest fits, at least one; None when nothing can be.

    size: of the next request, by estimate [tokens].
    target: what it should come down to, the summary included [tokens].
    summary_limit: the most that the summary takes of that [tokens].
    chunk_size: the most that goes into one request; a larger unit goes alone [tokens].
    """
    if not history or history[0].role != "user":
        return None
    head = Flattened.of(history[0])
    all_turns = (*head.turns, *turns(history[1:]))
    # The newest turn with calls is still being worked on; what a retold message holds was worked on before.
    newest = max((at for at, turn in enumerate(all_turns) if turn.pairs and turn.messages), default=0)
    fresh = [at for at, turn in enumerate(all_turns[:newest]) if turn.fresh]
    if not fresh:
        return None
    retold = bool(head.summary) or is_bound(history)
    stays = [_length(turn, is_old=False, retold=retold) for turn in all_turns]
    shrinks = [_length(turn, is_old=True, retold=retold) for turn in all_turns]
    # System prompt and tools are in the size, too; they stay.
    room = target - summary_limit - max(size - estimate(None, history), 0)
    left = len(text_of(head.question)) + sum(stays)
    cut = 0
    while cut <= fresh[0] or (cut < newest and tokens(left) > room):
        left += shrinks[cut] - stays[cut]
        cut += 1
    old = all_turns[:cut]
    # What stands before an earlier summary, it already speaks for.
    since = 1 + max((at for at, turn in enumerate(old) if turn.summary is not None), default=-1)
    units = [unit for turn in old[since:] for unit in _units(turn)]
    chunks = packed(units, lambda unit: unit.tokens, chunk_size)
    return Plan(tuple(history), old, all_turns[cut:], chunks, retold)


def _length(turn: Turn, *, is_old: bool, retold: bool) -> int:
    """Return how much of the new transcript a turn takes [characters]."""
    if not retold:
        return characters(turn.without_outputs if is_old else turn.messages)
    parts = turn.by_user if is_old else turn.parts
    return sum(len(told(part)) for part in parts) + sum(len(line(pair)) for pair in turn.work if is_old)


def _units(turn: Turn) -> Iterator[CallUnit]:
    """Yield each call of a turn with what was written before it; last words go with the last call."""
    units: list[list[Part]] = []
    waiting: list[Part] = []
    for part in turn.parts:
        if part in turn.by_user:
            continue
        waiting.append(part)
        if isinstance(part, Pair):
            units.append(waiting)
            waiting = []
    if units:
        units[-1] += waiting
    elif waiting:
        units.append(waiting)
    return (CallUnit(tuple(parts)) for parts in units)

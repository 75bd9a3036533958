"""An executed tool call: its output, and the budget after it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self

from run_specialist import prompts
from run_specialist.budget.budget import Budget, Kind
from run_specialist.record.messages import ToolCall

_UNKNOWN = Budget(())


@dataclass(frozen=True, slots=True)
class CallRecord:
    """A tool call that returned."""

    call: ToolCall
    text: str
    """The raw output: redacted and cut to the result limit, without any notice."""
    is_error: bool = False
    truncated: bool = False
    """True if the output was longer than its text."""
    note: str = ""
    """A line that belongs to the output, e.g. how to read on."""
    repeated: bool = False
    """True if an identical call was made before and this is its result."""
    whole: str | None = None
    """The complete output, redacted; None if the text is complete."""
    drawn: Mapping[Kind, float] = field(default_factory=dict)
    """The amounts that a child run spent of the budget, in addition to the call itself."""

    @property
    def all(self) -> str:
        """The complete output."""
        return self.text if self.whole is None else self.whole

    @property
    def lines(self) -> list[str]:
        """The lines of its result before any augmenter: the output and the notices about it."""
        lines = [self.text if self.text.strip() or self.truncated else prompts.EMPTY_RESULT]
        lines += [prompts.TRUNCATED] if self.truncated else []
        lines += [self.note] if self.note else []
        lines += [prompts.SAME_CALL] if self.repeated else []
        return lines

    def cut(self, most: float | None) -> Self:
        """Return the call with at most so many characters of text; None = no limit."""
        if most is None or len(self.text) <= most:
            return self
        return replace(self, text=self.text[: int(most)], truncated=True, whole=self.all)


@dataclass(frozen=True, slots=True)
class Executed(CallRecord):
    """A tool call that returned, with its place in the turn and the budget after it."""

    budget: Budget = _UNKNOWN
    """The budget after this call, in call order."""
    number: int = 1
    """Position among the calls of the turn that were run, from 1."""
    of_turn: int = 1
    """How many calls were run in the turn."""


Augmenter = Callable[[Executed], str | Mapping[str, Any] | None]
"""Looks at a finished call and may return a line to append to its result, or JSON fields to merge into it."""

_FIELDS = tuple(each.name for each in fields(CallRecord))


@dataclass(frozen=True, slots=True)
class EarlierCalls:
    """The calls of a run before it was resumed."""

    executed: Mapping[int, CallRecord] = field(default_factory=dict)
    """Calls that returned, by their number in the run."""
    started: int = 0
    """Calls in the turns that were acted upon."""
    cut_off: int = 0
    """Calls after those that may have been running when the process ended; none of them is run again."""
    skipped: int = 0


def spend_call(budget: Budget, record: CallRecord) -> Budget:
    """Return the budget after one more call; no more characters are spent than are left."""
    left = budget[Kind.CHARACTERS].remaining
    characters = len(record.text) if left is None else min(len(record.text), left)
    spent = budget.spend_all({Kind.TOOL_CALLS: 1, Kind.CHARACTERS: characters})
    return spent.spend_all(record.drawn) if record.drawn else spent


def in_call_order(budget: Budget, records: Sequence[CallRecord]) -> list[Executed]:
    """Return the calls of a turn, each with the budget after it, and its text cut to the characters left before it.

    budget: before the turn.
    """
    executed = []
    for number, record in enumerate(records, 1):
        cut = record.cut(budget[Kind.CHARACTERS].remaining)
        budget = spend_call(budget, cut)
        fields_of_record = {name: getattr(cut, name) for name in _FIELDS}
        executed.append(Executed(**fields_of_record, budget=budget, number=number, of_turn=len(records)))
    return executed

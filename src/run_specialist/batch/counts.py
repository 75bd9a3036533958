"""Count the items of a batch by their states."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from run_specialist.batch.breaker import USAGE
from run_specialist.batch.done import Done

NO_ANSWER = "no_answer"
"""Kind of failure if the model ended the run without an answer."""


@dataclass(frozen=True, slots=True)
class Counts:
    """The number of items of a batch in each state."""

    answered: int = 0
    landed: int = 0
    partial: int = 0
    failed: Mapping[str, int] = field(default_factory=dict)
    """By `Outcome.error_kind`, `usage` for items without a run, or `no_answer`."""
    aborted: int = 0
    at_work_elsewhere: int = 0
    """Items in progress in another process."""
    not_run: int = 0
    """Items without an outcome when the batch ended; a repeated call begins or resumes them. 0 until the end."""
    under_way: int = 0
    earlier: int = 0
    """Ended items whose outcome is from an earlier call."""
    total: int | None = None
    """None while the number of items is not known."""

    @property
    def has_answer(self) -> int:
        """Items with an answer, even a partial one."""
        return self.answered + self.landed + self.partial

    @property
    def done(self) -> int:
        """Items that have ended."""
        return self.has_answer + sum(self.failed.values()) + self.aborted + self.at_work_elsewhere


class ItemCounter:
    """Counts the items that have ended, and adds up their cost."""

    def __init__(self) -> None:
        self._states: Counter[str] = Counter()
        self._failed: Counter[str] = Counter()
        self._earlier = 0

    def add(self, done: Done) -> None:
        """Count an item that has ended."""
        self._earlier += done.is_earlier
        if done.state == "failed":
            self._failed[failure_of(done)] += 1
        else:
            self._states[done.state] += 1

    def counts(self, *, under_way: int, not_run: int, total: int | None) -> Counts:
        """Return the counts so far."""
        return Counts(
            answered=self._states["answered"],
            landed=self._states["landed"],
            partial=self._states["partial"],
            failed=dict(self._failed.most_common()),
            aborted=self._states["aborted"],
            at_work_elsewhere=self._states["at work elsewhere"],
            not_run=not_run,
            under_way=under_way,
            earlier=self._earlier,
            total=total,
        )


def failure_of(done: Done) -> str:
    """Return the kind of failure of a failed item."""
    return USAGE if done.outcome is None else done.outcome.error_kind or NO_ANSWER

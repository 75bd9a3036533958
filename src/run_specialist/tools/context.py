"""Context of a tool call: the run's budget, and the interface that lends part of it to a child run."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

from run_specialist.budget.budget import Budget, Kind, Limit
from run_specialist.record.events import Event
from run_specialist.record.journal import Record
from run_specialist.record.outcome import Child
from run_specialist.tools import threads


class RunLog(Protocol):
    """Receives what a tool reports about its call, besides its result."""

    def notify(self, event: Event) -> None:
        """Report an event to the observers of the run, and store it; credentials in its texts are masked."""
        ...

    @property
    def is_stored(self) -> bool:
        """Whether the run is stored, so that its changes can be undone later."""
        ...

    async def stored(self, record: Record) -> bool:
        """Store a record and wait until it is stored; return whether it was.

        Also True for a run that is not stored at all.
        """
        ...


class BudgetLender(Protocol):
    """Lends part of a run's budget to a child run."""

    def lend(self, wanted: Mapping[Kind, float | None], least: Mapping[Kind, float]) -> Mapping[Kind, float | None]:
        """Reserve budget for a child, at most its share of the remainder, and return the amounts.

        wanted: the child's own limits; None = no limit.
        least: minimum amounts, granted as long as the remainder covers them.
        """
        ...

    def settle(self, child: Child | None) -> None:
        """Charge the child's spending once and release the rest of the loan; None if the child never ran."""
        ...

    def warn(self, text: str) -> None:
        """Add a warning to the run's events and outcome; a repeated text is added only once."""
        ...

    def pass_on(self, event: Event) -> None:
        """Forward an event of the child to the run's observers."""
        ...


@dataclass(frozen=True, slots=True)
class Context:
    """Context of one tool call; a function receives it through a parameter of this type, hidden from the model."""

    run_id: str
    call_id: str
    budget: Budget
    """Budget at the start of the call; all calls of the same turn are already counted."""
    seconds: float
    """Timeout of the call [s]."""
    log: RunLog | None = field(default=None, repr=False, kw_only=True)
    """Receives events and records of the call; None outside a run."""

    def when_cancelled(self, call: Callable[[], object]) -> None:
        """Register a callback that runs once this call is cancelled, times out or returns.

        For functions that run in a thread: threads are not interrupted, so they must stop what they started, such as a
        process. Does nothing in coroutines, which are cancelled directly.
        """
        threads.when_cancelled(call)

    def left(self, kind: Kind | str = Kind.TOOL_CALLS) -> float | None:
        """Return the remaining amount of one kind; None if it has no limit.

        kind: `tool_calls`, `turns`, `tokens`, `cost` [USD], `time` [s] or `characters`.
        """
        return self.limit(kind).remaining

    def limit(self, kind: Kind | str) -> Limit:
        """Return limit and usage of one kind."""
        return self.budget[Kind(kind)]


@dataclass(frozen=True, slots=True)
class ChildContext(Context):
    """Context for tools whose calls are child runs, such as `delegate`."""

    lender: BudgetLender = field(repr=False)
    """Lends the child a share of the run's budget."""
    stopping: Callable[[Callable[[], object]], AbstractContextManager[None]] = field(repr=False)
    """Returns a context in which a function is called once when the run must stop after its turn."""

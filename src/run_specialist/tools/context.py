"""What a tool may know of the call that it works for: the run's budget, and a child's share of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from run_specialist.budget.budget import Budget, Kind, Limit
from run_specialist.record.events import Event
from run_specialist.record.outcome import Child
from run_specialist.tools import threads


class BudgetLender(Protocol):
    """What a call may draw of its run's budget, for a run of its own."""

    def lend(self, wanted: Mapping[Kind, float | None], least: Mapping[Kind, float]) -> Mapping[Kind, float | None]:
        """Set aside what a child wants, at most its part of what is left, and return what it gets.

        wanted: the child's own limits; None = no limit.
        least: what it can do nothing without, so that it gets this much as long as it is there.
        """
        ...

    def settle(self, child: Child | None) -> None:
        """Book what the child spent, once, and take back the rest of what was lent; None where it never ran."""
        ...

    def warn(self, text: str) -> None:
        """Tell whoever watches the run, and its outcome, that something is odd; the same only once."""
        ...

    def pass_on(self, event: Event) -> None:
        """Show an event of the child to whoever watches the run."""
        ...


@dataclass(frozen=True, slots=True)
class Context:
    """The call that a tool works for; a function takes it by a parameter of this type, which no model sees."""

    run_id: str
    call_id: str
    budget: Budget
    """As it stands when the call begins; all calls of its turn are spent already."""
    seconds: float
    """Timeout of the call [s]."""

    def when_cancelled(self, call: Callable[[], object]) -> None:
        """Call a function as soon as nobody waits for this call any more, or it has returned.

        For functions that run in a thread: they are not interrupted, and have to end what they started, such as a
        process. Does nothing in coroutines, which are cancelled themselves.
        """
        threads.when_cancelled(call)

    def left(self, kind: Kind | str = Kind.TOOL_CALLS) -> float | None:
        """Return how much of a kind is left; None when it is not limited.

        kind: `tool_calls`, `turns`, `tokens`, `cost` [USD], `time` [s] or `characters`.
        """
        return self.limit(kind).remaining

    def limit(self, kind: Kind | str) -> Limit:
        """Return how one kind stands."""
        return self.budget[Kind(kind)]


@dataclass(frozen=True, slots=True)
class ChildContext(Context):
    """The context of a tool whose call is a run of its own, such as `delegate`."""

    lender: BudgetLender = field(repr=False)
    """Lends the child a share of the run's budget."""

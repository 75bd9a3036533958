"""The share of a run's budget that one tool call lends to a child run, reserved before the child starts."""

from collections.abc import Mapping

from run_specialist.budget.budget import Kind
from run_specialist.loop.observing.observers import Observers
from run_specialist.loop.spending.account import Account
from run_specialist.record.events import Event, Warned
from run_specialist.record.outcome import Child

SHARED_KINDS = (Kind.TOOL_CALLS, Kind.TOKENS, Kind.COST)
"""The kinds that a child draws on; turns and characters limit one transcript, and time passes for all runs together."""

_NOTHING: Mapping[Kind, float] = {}
"""The spending of a call without a child; one shared object, because every finished call keeps it."""


def drawn(child: Child) -> dict[Kind, float]:
    """Return the amounts that a child spent of a shared budget, by kind."""
    return dict(zip(SHARED_KINDS, (child.tool_calls, child.usage.total_tokens, child.cost_usd or 0), strict=True))


class ChildBudgets:
    """Divides the remaining budget between the calls of one turn that have not reserved their share yet."""

    def __init__(self, account: Account, waiting: int) -> None:
        """Take the run's account.

        waiting: calls that may reserve a share.
        """
        self._account = account
        self._waiting = waiting

    def part(self, kind: Kind, least: float) -> float | None:
        """Return the share of the next call, equal to that of each waiting call; None if the kind is unlimited.

        least: minimum that is useful to the child; it gets this much as long as it is available.
        """
        left = self._account.limit(kind).until_landing
        if left is None:
            return None
        share = left / max(self._waiting, 1)
        return max(share // 1, min(left, 1)) if kind is Kind.TOOL_CALLS else max(share, min(left, least))

    def leave(self) -> None:
        """Remove one waiting call."""
        self._waiting -= 1


class ChildBudget:
    """Lends a share of the budget to the child of one call, and charges its spending."""

    def __init__(self, account: Account, observers: Observers, queue: ChildBudgets, *, shared: bool) -> None:
        """Take the parts of a run.

        shared: whether the child draws on the run's budget; its usage is added to the run's in any case.
        """
        self._account = account
        self._observers = observers
        self._queue = queue
        self._shared = shared
        self._lent: dict[Kind, float] = {}
        self._is_waiting = True
        self.drawn = _NOTHING
        """The amounts that the child spent of the run's budget."""

    def lend(self, wanted: Mapping[Kind, float | None], least: Mapping[Kind, float]) -> Mapping[Kind, float | None]:
        """Reserve the limits that a child wants, each at most its share of the remaining budget; return its limits.

        wanted: the child's own limits; None = no limit.
        least: minimum amounts that are useful to it.
        """
        if not self._shared:
            return wanted
        granted = dict(wanted)
        for kind in SHARED_KINDS:
            share, limit = self._queue.part(kind, least.get(kind, 0)), wanted.get(kind)
            if share is not None:
                granted[kind] = self._lent[kind] = share if limit is None else min(share, limit)
                self._account.lend(self._lent[kind], kind)
        self.leave()
        return granted

    def leave(self) -> None:
        """Withdraw from the waiting calls, so that the others get larger shares."""
        if self._is_waiting:
            self._is_waiting = False
            self._queue.leave()

    def settle(self, child: Child | None) -> None:
        """Charge the child's spending, once, and release the rest of the reservation.

        child: None if it never ran.
        """
        for kind, amount in self._lent.items():
            self._account.lend(-amount, kind)
        self._lent = {}
        if child is None:
            return
        if self._shared:
            self.drawn = drawn(child)
        self._account.adopt(child, self.drawn)

    def warn(self, text: str) -> None:
        """Report a warning to the listeners and in the outcome, unless it was reported before."""
        if text not in self._observers.warnings:
            self._observers.notify(Warned(text))

    def pass_on(self, event: Event) -> None:
        """Notify the listeners of an event of the child."""
        self._observers.pass_on(event)

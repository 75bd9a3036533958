"""What one tool call draws of its run's budget for a run of its own, reserved before that begins."""

from collections.abc import Mapping

from run_specialist.budget.budget import Kind
from run_specialist.loop.observing.observers import Observers
from run_specialist.loop.spending.account import Account
from run_specialist.record.events import Event, Warned
from run_specialist.record.outcome import Child

LENT = (Kind.TOOL_CALLS, Kind.TOKENS, Kind.COST)
"""The kinds that a child draws on. Turns and characters bound one transcript; time passes for all at once."""


def drawn(child: Child) -> dict[Kind, float]:
    """Return what a child spent of a budget that it shares."""
    return dict(zip(LENT, (child.tool_calls, child.usage.total_tokens, child.cost_usd or 0), strict=True))


class ChildBudgets:
    """The calls of one turn that may still ask for a part of the budget."""

    def __init__(self, account: Account, waiting: int) -> None:
        self._account = account
        self._waiting = waiting

    def part(self, kind: Kind, least: float) -> float | None:
        """Return what the next one may have of a kind at most: as much as each of those behind it.

        least: with less it can do nothing, so that it gets this much as long as it is there.
        """
        left = self._account.limit(kind).until_landing
        if left is None:
            return None
        part = left / max(self._waiting, 1)
        return max(part // 1, min(left, 1)) if kind is Kind.TOOL_CALLS else max(part, min(left, least))

    def leave(self) -> None:
        """Take one out."""
        self._waiting -= 1


class ChildBudget:
    """Lends to the child of one call, and books what came back."""

    def __init__(self, account: Account, observers: Observers, queue: ChildBudgets, *, shared: bool) -> None:
        """Take the parts of a run.

        shared: whether its child draws on the run's budget; its usage is the run's in any case.
        """
        self._account = account
        self._observers = observers
        self._queue = queue
        self._shared = shared
        self._lent: dict[Kind, float] = {}
        self._waits = True
        self.drawn: dict[Kind, float] = {}
        """What was taken from the run's budget."""

    def lend(self, wanted: Mapping[Kind, float | None], least: Mapping[Kind, float]) -> Mapping[Kind, float | None]:
        """Set aside what a child wants, at most its part of what is left, and return what it gets.

        least: what it can do nothing without.
        """
        if not self._shared:
            return wanted
        given = dict(wanted)
        for kind in LENT:
            part, want = self._queue.part(kind, least.get(kind, 0)), wanted.get(kind)
            if part is not None:
                given[kind] = self._lent[kind] = part if want is None else min(part, want)
                self._account.lend(self._lent[kind], kind)
        self.leave()
        return given

    def leave(self) -> None:
        """Ask for nothing any more, so that those behind get the more."""
        if self._waits:
            self._waits = False
            self._queue.leave()

    def settle(self, child: Child | None) -> None:
        """Book what the child spent, once, and take back the rest of what was lent; None where it never ran."""
        for kind, amount in self._lent.items():
            self._account.lend(-amount, kind)
        self._lent = {}
        if child is None:
            return
        if self._shared:
            self.drawn = drawn(child)
        self._account.adopt(child, self.drawn)

    def warn(self, text: str) -> None:
        """Tell whoever watches the run, and its outcome, that something is odd; the same only once."""
        if text not in self._observers.warnings:
            self._observers.tell(Warned(text))

    def pass_on(self, event: Event) -> None:
        """Show an event of the child to whoever watches the run."""
        self._observers.pass_on(event)

"""What a client is told while a run is at work: the countdown in words, and figures that only ever grow."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from run_specialist.budget import units
from run_specialist.budget.budget import Kind
from run_specialist.record.events import BudgetSpent, Called, ChildTold, Event, Finished, Landed, Started

SHOWN = 60
"""So much of what a call asks for stands in a message [characters]."""
LEAST = 0.001
"""By so much progress grows where nothing was spent: a client takes no figure that did not grow."""


@dataclass(frozen=True, slots=True)
class ProgressUpdate:
    """One notification."""

    progress: float
    """Used of the kind that is nearest to its end, in the unit of `total`."""
    total: float | None
    """The limit; None where nothing is limited."""
    message: str


class Progress:
    """How one run stands, in words and figures, event by event."""

    def __init__(self) -> None:
        self.latest = ProgressUpdate(0, None, "starting")
        """What was told last."""
        self.tool_calls = 0
        """Made by the run itself."""
        self._total: float | None = None
        self._figure_told = -LEAST
        self._call = ""
        self._children: dict[str, Progress] = {}

    def take(self, event: Event) -> ProgressUpdate | None:
        """Return what a client is told of an event; None where it changes nothing for it."""
        figure = 0.0
        if isinstance(event, Started):
            self._total = next((limit for limit in event.limits.values() if limit is not None), None)
        elif isinstance(event, BudgetSpent):
            figure = self._figure(event)
        elif isinstance(event, Called) and event.phase in {"finished", "failed"}:
            # Told together with what is left, which the next event says.
            self.tool_calls += 1
            self._call = f"{event.name}{' failed' if event.phase == 'failed' else ''}{_asked(event.arguments)}"
        message = self._message(event)
        return None if message is None else self._tell(figure, message)

    def _message(self, event: Event) -> str | None:
        match event:
            case Started():
                limits = (units.amount(Kind(kind), limit) for kind, limit in event.limits.items() if limit is not None)
                have = ", ".join(limits) or "no limit"
                return f"{event.specialist} started on {event.model} · {have} · run {event.run_id}"
            case BudgetSpent():
                return " · ".join(part for part in (self._call, _stand(event)) if part)
            case Landed():
                return f"the limit of {event.reason.words} is reached: landing, it must answer now"
            case Finished():
                return f"{event.outcome.status} after {units.amount(Kind.TOOL_CALLS, event.outcome.tool_calls.used)}"
            case ChildTold():
                told = self._children.setdefault(event.run_id, Progress()).take(event.told)
                return None if told is None else f"{event.specialist}: {told.message}"
            case _:
                return None

    def still(self, seconds: float) -> ProgressUpdate:
        """Return what is told after so long without news, so that a client does not give up."""
        before = self.latest
        after = self._tell(0, f"{before.message} · still at work, {seconds:.0f} s")
        self.latest = replace(after, message=before.message)
        return after

    def _figure(self, spent: BudgetSpent) -> float:
        """Return what is used; of another kind than the total's, the same share of the total."""
        if self._total is None or spent.limit is None:
            return spent.used
        if spent.limit == self._total:
            return spent.used
        return self._total * (spent.used / spent.limit if spent.limit else 1)

    def _tell(self, figure: float, message: str) -> ProgressUpdate:
        progress = self._figure_told = round(max(figure, self._figure_told + LEAST), 3)
        total = None if self._total is None else max(self._total, progress)
        self.latest = ProgressUpdate(progress, total, message)
        return self.latest


def _asked(arguments: Mapping[str, Any] | None) -> str:
    words = next((value for value in (arguments or {}).values() if isinstance(value, str)), "")
    line = " ".join(words.split())
    return f": '{line[:SHOWN]}{'…' if len(line) > SHOWN else ''}'" if line else ""


def _stand(spent: BudgetSpent) -> str:
    kind = Kind(spent.kind)
    if spent.limit is None or spent.remaining is None:
        return f"{units.amount(kind, spent.used)} used"
    used = f"{units.number(kind, spent.used)} of {units.of(kind, spent.limit)} used"
    return f"{used}, {units.number(kind, spent.remaining)} remaining"

"""Progress notifications of a run: a message with the countdown, and a progress value that always increases."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from run_specialist.budget import units
from run_specialist.budget.budget import Kind
from run_specialist.record.events import (
    BudgetSpent,
    Called,
    ChildTold,
    Event,
    Finished,
    Landed,
    Retrying,
    Started,
    Waiting,
)

SHOWN = 60
"""Maximum length of a tool call's argument in a message [characters]."""
MIN_STEP = 0.001
"""Minimum increase of the progress value: MCP requires that it increases with each notification."""


@dataclass(frozen=True, slots=True)
class ProgressUpdate:
    """One progress notification."""

    progress: float
    """Usage of the limit closest to exhaustion, scaled to `total`."""
    total: float | None
    """The limit; None without limits."""
    message: str


class ProgressReporter:
    """Converts the events of a run to progress notifications."""

    def __init__(self) -> None:
        self.latest = ProgressUpdate(0, None, "starting")
        """The last notification."""
        self.tool_calls = 0
        """Number of tool calls, without those of child runs."""
        self._total: float | None = None
        self._last_progress = -MIN_STEP
        self._call = ""
        self._children: dict[str, ProgressReporter] = {}

    def take(self, event: Event) -> ProgressUpdate | None:
        """Return the notification for an event; None if the event is not reported."""
        used = 0.0
        if isinstance(event, Started):
            self._total = next((limit for limit in event.limits.values() if limit is not None), None)
        elif isinstance(event, BudgetSpent):
            used = self._scaled_usage(event)
        elif isinstance(event, Called) and event.phase in {"finished", "failed"}:
            # Reported with the next event, which contains the remaining budget.
            self.tool_calls += 1
            self._call = f"{event.name}{' failed' if event.phase == 'failed' else ''}{_query_text(event.arguments)}"
        message = self._message(event)
        return None if message is None else self._update(used, message)

    def _message(self, event: Event) -> str | None:  # noqa: PLR0911 - one for each kind of event
        match event:
            case Started():
                limits = (units.amount(Kind(kind), limit) for kind, limit in event.limits.items() if limit is not None)
                budget = ", ".join(limits) or "no limit"
                return f"{event.specialist} started on {event.model} · {budget} · run {event.run_id}"
            case BudgetSpent():
                return " · ".join(part for part in (self._call, _usage_text(event)) if part)
            case Landed():
                return f"the limit of {event.reason.label} is reached: landing, it must answer now"
            case Retrying():
                return f"{event.reason} · retry {event.attempt} in {event.seconds:.1f} s"
            case Waiting() if event.phase == "started":
                return f"waiting{'' if event.seconds is None else f' {event.seconds:.0f} s'} · {event.reason}"
            case Finished():
                return f"{event.outcome.status} after {units.amount(Kind.TOOL_CALLS, event.outcome.tool_calls.used)}"
            case ChildTold():
                update = self._children.setdefault(event.run_id, ProgressReporter()).take(event.told)
                return None if update is None else f"{event.specialist}: {update.message}"
            case _:
                return None

    def still(self, seconds: float) -> ProgressUpdate:
        """Return a keep-alive notification, which prevents a timeout of the client.

        seconds: since the start of the request.
        """
        before = self.latest
        after = self._update(0, f"{before.message} · still at work, {seconds:.0f} s")
        self.latest = replace(after, message=before.message)
        return after

    def _scaled_usage(self, spent: BudgetSpent) -> float:
        """Return the usage; for another kind than that of the total, the same share of the total."""
        if self._total is None or spent.limit is None:
            return spent.used
        if spent.limit == self._total:
            return spent.used
        return self._total * (spent.used / spent.limit if spent.limit else 1)

    def _update(self, used: float, message: str) -> ProgressUpdate:
        progress = self._last_progress = round(max(used, self._last_progress + MIN_STEP), 3)
        total = None if self._total is None else max(self._total, progress)
        self.latest = ProgressUpdate(progress, total, message)
        return self.latest


def _query_text(arguments: Mapping[str, Any] | None) -> str:
    text = next((value for value in (arguments or {}).values() if isinstance(value, str)), "")
    line = " ".join(text.split())
    return f": '{line[:SHOWN]}{'…' if len(line) > SHOWN else ''}'" if line else ""


def _usage_text(spent: BudgetSpent) -> str:
    kind = Kind(spent.kind)
    if spent.limit is None or spent.remaining is None:
        return f"{units.amount(kind, spent.used)} used"
    used = f"{units.number(kind, spent.used)} of {units.of(kind, spent.limit)} used"
    return f"{used}, {units.number(kind, spent.remaining)} remaining"

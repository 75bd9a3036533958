"""Track a running batch: the activity of each running item, the cost, the speed, and the remaining time."""

import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from run_specialist.cli.batch.map_units import label
from run_specialist.cli.call_lines import call_text
from run_specialist.cli.running_total import RunningTotal
from run_specialist.record.events import Called, ChildTold, Event, Requested, Retrying

if TYPE_CHECKING:
    from run_specialist.batch.batch_events import BatchEvent
    from run_specialist.batch.done import Done
    from run_specialist.batch.item import Item

TELLING = 5
"""Minimum number of ended items for a forecast."""
_NEWEST = 64
"""Number of newest ends from which the speed is calculated."""


@dataclass
class ItemProgress:
    """A running item."""

    number: int
    label: str
    doing: str = "starting"
    total: RunningTotal = field(default_factory=RunningTotal)


class MapProgress:
    """Follows the events of a batch; a view reads its figures, possibly from another thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin at zero.

        clock: [s]
        """
        self.clock = clock
        self.begun = clock()
        self.under_way: dict[int, ItemProgress] = {}
        """The running items by number, the newest last; includes items that were taken back."""
        self.spent: float | None = 0.0
        """Cost of all items that this call has ended; None if a price is unknown [USD]."""
        self.new = 0
        """Number of items that this call has ended; those of earlier calls do not count."""
        self.earlier = 0
        """Number of items that earlier calls have ended."""
        self.new_cost: float | None = 0.0
        """Cost of the items that this call has ended [USD]."""
        self.seconds_paused = 0.0
        self._ends: deque[float] = deque(maxlen=_NEWEST)
        self._paused_at: float | None = None

    def begin(self, item: "Item") -> None:
        """Record that an item begins."""
        self.under_way[item.number] = ItemProgress(item.number, label(item.input, item.question))

    def hear_batch(self, event: "BatchEvent", items: Iterable["Item"] = ()) -> None:
        """Record an event of the batch.

        items: the running ones.
        """
        match event.event:
            case "item_started":
                # An item that was taken back and begins again reports what it has cost so far.
                for item in items:
                    if item.number == getattr(event, "number", None):
                        self.begin(item)
            case "batch_paused":
                self._paused_at = self._paused_at or self.clock()
            case "batch_resumed" | "batch_ended" if self._paused_at is not None:
                self.seconds_paused += self.clock() - self._paused_at
                self._paused_at = None
            case _:
                pass

    def hear(self, number: int, event: Event) -> None:
        """Record an event of an item's run."""
        if (one := self.under_way.get(number)) is None:
            return
        one.total.add(event)
        if (doing := _doing(event)) is not None:
            one.doing = doing

    def end(self, done: "Done") -> None:
        """Record that an item has ended."""
        self.under_way.pop(done.number, None)
        cost = None if done.outcome is None else done.outcome.cost_usd
        if done.outcome is not None:
            self.spent = _sum(self.spent, cost)
        if done.is_earlier:
            self.earlier += 1
            return
        self.new += 1
        self._ends.append(self._worked())
        if done.outcome is not None:
            self.new_cost = _sum(self.new_cost, cost)

    @property
    def seconds(self) -> float:
        """Time since the beginning [s]."""
        return self.clock() - self.begun

    @property
    def cost_usd(self) -> float | None:
        """Cost so far, including running items; None if a price is unknown [USD]."""
        total = self.spent
        for one in [*self.under_way.values()]:
            total = _sum(total, one.total.cost_usd)
        return total

    @property
    def per_second(self) -> float | None:
        """Recent speed [items per second]; None until enough items have ended."""
        if len(self._ends) < TELLING:
            return None
        since = self._ends[0] if len(self._ends) == _NEWEST else 0.0
        seconds = self._worked() - since
        return None if seconds <= 0 else len(self._ends) / seconds

    def cost_at_end(self, rest: int) -> float | None:
        """Return the expected cost of the whole batch, given the number of items left; None if it is unknown [USD]."""
        if self.new < TELLING or self.new_cost is None or self.spent is None:
            return None
        return self.spent + rest * self.new_cost / self.new

    def _worked(self) -> float:
        """Time since the beginning, without pauses [s]."""
        pause = 0.0 if self._paused_at is None else self.clock() - self._paused_at
        return self.seconds - self.seconds_paused - pause


def _sum(total: float | None, more: float | None) -> float | None:
    return None if total is None or more is None else total + more


def _doing(event: Event) -> str | None:
    """Return the activity of a run after an event, as text; None if the event does not change it."""
    match event:
        case Requested():
            return "thinking"
        case Called() if event.phase == "started":
            return call_text(event)
        case Retrying():
            return f"waits {event.seconds:.0f} s: {event.reason}"
        case ChildTold():
            return _doing(event.told)
        case _:
            return None

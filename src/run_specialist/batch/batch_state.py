"""State shared by the parts of a running batch."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from run_specialist.batch.batch_events import BatchEvent, BatchListener, ItemEnded, RunListener
from run_specialist.batch.batch_record import BatchRecord
from run_specialist.batch.breaker import Breaker
from run_specialist.batch.changes import ChangeSignal
from run_specialist.batch.counts import ItemCounter
from run_specialist.batch.done import Done
from run_specialist.batch.grants import Grants
from run_specialist.batch.inputs import ItemQueue
from run_specialist.batch.item import Item
from run_specialist.batch.item_run import ItemRun, ItemRuns
from run_specialist.record.outcome import Outcome

STOPPED = "stopped"
"""Reason of the end if the caller stopped the batch."""

FLEET = "fleet"
"""Reason of the end if the workers of a fleet have left items without an outcome."""

Clock = Callable[[], float]
"""Returns the time [seconds since 1970]."""


@dataclass(eq=False, slots=True)
class ActiveItem:
    """An item in progress."""

    item: Item
    is_probe: bool = False
    """Whether the pause ends if this item succeeds; False once its first request was answered."""
    run: ItemRun | None = None
    """The run; None until it has been taken up."""
    grant: float | None = None
    """The amount that the item may spend of the limit of the batch [USD]."""
    spent: float = 0.0
    """The amount that the item has spent of the limit [USD]."""


@dataclass(eq=False)
class BatchState:
    """The items of a batch, the ended ones, and the limits for the others."""

    batch_id: str
    inputs: ItemQueue
    runs: ItemRuns
    at_once: int
    """Maximum number of items in progress."""
    breaker: Breaker
    grants: Grants | None
    """The shares of the cost limit; None without one."""
    record: BatchRecord
    clock: Clock
    changes: ChangeSignal
    tally: ItemCounter = field(default_factory=ItemCounter)
    cost_usd: float = 0.0
    """Known cost of the runs of all ended items, including earlier calls [USD]."""
    ended: asyncio.Queue[Done | None] = field(default_factory=asyncio.Queue)
    """Queue of ended items for the caller; None follows the last one."""
    begun: set[str] | None = None
    """The stored runs by id; None = unknown."""
    only_reads: bool = False
    """Whether no run begins or is resumed: the outcomes that a fleet has stored are read."""
    ended_because: str | None = None
    """Why no more items begin; None while they do, and after all have begun."""
    stops_now: bool = False
    """Whether the items in progress must end immediately."""
    under_way: dict[asyncio.Task[None], ActiveItem] = field(default_factory=dict)
    written: Callable[[str], Outcome | None] = lambda _: None
    """Returns the outcome that an earlier call has written for a run, by its id, in case the run is not stored."""
    unstored: int = 0
    """Number of runs of this call whose outcome could not be stored."""
    own_run_id: Callable[[Item], str] | None = None
    """Returns the run id of an item; None = it is derived from the batch and the key of the item."""
    listeners: list[BatchListener] = field(default_factory=list)
    run_listeners: list[RunListener] = field(default_factory=list)

    @property
    def has_room(self) -> bool:
        """Whether another item may begin."""
        # A caller that is slower than the items must not let outcomes pile up.
        busy = len(self.under_way)
        return busy < self.at_once and busy + self.ended.qsize() < 2 * self.at_once

    def run_id(self, item: Item) -> str:
        """Return the id of the run of an item."""
        return f"{self.batch_id}-{item.key}" if self.own_run_id is None else self.own_run_id(item)

    def is_new(self, run_id: str) -> bool:
        """Return whether no run with this id was stored when the batch was opened, or begun since."""
        return self.begun is not None and run_id not in self.begun

    def take_back(self, item: Item, *, may_fail: bool) -> bool:
        """Take back an item whose run failed because of the endpoint; return False after too many attempts."""
        if self.begun is not None:
            self.begun.add(self.run_id(item))
        return self.inputs.put_back(item, may_fail=may_fail)

    def put_last(self, item: Item) -> bool:
        """Take back an item that another process works on; return False if it was already put last."""
        if self.begun is not None:
            self.begun.add(self.run_id(item))
        return self.inputs.put_last(item)

    def end(self, reason: str) -> None:
        """Begin no more items; only the first reason is kept."""
        self.ended_because = self.ended_because or reason
        self.changes.happened()

    def tell(self, event: BatchEvent) -> None:
        """Pass an event to the listeners; a listener that raises is dropped."""
        for listener in tuple(self.listeners):
            try:
                listener(event)
            except Exception:  # noqa: BLE001 - foreign code
                self.listeners.remove(listener)

    def pass_on(self, done: Done) -> None:
        """Count an ended item, and pass it to the caller."""
        self.inputs.ended(done.item)
        self.tally.add(done)
        cost = kind = None
        if done.outcome is not None:
            cost, kind = done.outcome.cost_usd, done.outcome.error_kind
            self.cost_usd += cost or 0.0
        self.tell(ItemEnded(done.number, done.run_id, done.state, cost, kind, done.is_earlier))
        self.ended.put_nowait(done)

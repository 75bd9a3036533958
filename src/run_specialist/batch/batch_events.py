"""Events of a batch, as frozen values; listeners receive them in order."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from run_specialist.batch.counts import Counts
from run_specialist.record.events import Event


@dataclass(frozen=True, slots=True)
class BatchEvent:
    """Base of the events of a batch."""

    event: ClassVar[str]

    def as_json(self) -> dict[str, Any]:
        """Return the event as JSON values, its name first."""
        return {"event": self.event, **asdict(self)}


@dataclass(frozen=True, slots=True)
class BatchStarted(BatchEvent):
    """The batch has started; always its first event."""

    event = "batch_started"
    batch: str
    """Id of the batch."""
    total: int | None
    """Number of items; None if it is not known yet."""
    at_once: int
    cost_limit: float | None


@dataclass(frozen=True, slots=True)
class ItemStarted(BatchEvent):
    """The run of an item begins, or is resumed."""

    event = "item_started"
    number: int
    run_id: str


@dataclass(frozen=True, slots=True)
class ItemEnded(BatchEvent):
    """An item has ended."""

    event = "item_ended"
    number: int
    run_id: str
    state: str
    cost_usd: float | None
    """Cost of its whole run [USD]; None without a run, or if the price is not known."""
    error_kind: str | None
    is_earlier: bool
    """Whether the outcome is that of an earlier call."""


@dataclass(frozen=True, slots=True)
class BatchPaused(BatchEvent):
    """No items begin for a while, because the endpoint fails."""

    event = "batch_paused"
    kind: str
    reason: str
    seconds: float
    """Time until one item is tried [s]."""


@dataclass(frozen=True, slots=True)
class BatchResumed(BatchEvent):
    """The endpoint answers again."""

    event = "batch_resumed"
    kind: str


@dataclass(frozen=True, slots=True)
class BatchEnded(BatchEvent):
    """The batch has ended; always its last event."""

    event = "batch_ended"
    counts: Counts
    cost_usd: float
    reason: str | None
    """Why it ended before all items were done; None if it did not."""

    def as_json(self) -> dict[str, Any]:
        """Return the event as JSON values, with the number of items done."""
        values = super(BatchEnded, self).as_json()
        values["counts"]["done"] = self.counts.done
        return values


BatchListener = Callable[[BatchEvent], None]
RunListener = Callable[[int, Event], None]
"""Called with the number of an item and an event of its run."""

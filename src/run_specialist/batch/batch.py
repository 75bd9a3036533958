"""A batch: one question about each of many items, a few at a time."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass

from run_specialist.batch.batch_events import BatchEnded, BatchListener, BatchStarted, RunListener
from run_specialist.batch.batch_record import BatchRecord, NoRecord
from run_specialist.batch.batch_state import FLEET, STOPPED, BatchState, Clock
from run_specialist.batch.breaker import ENDING, FAILURES, PAUSE_LIMIT, PAUSING, USAGE, Breaker, Pause
from run_specialist.batch.changes import ChangeSignal, Sleep
from run_specialist.batch.counts import Counts
from run_specialist.batch.done import Done
from run_specialist.batch.grants import Grants
from run_specialist.batch.inputs import ItemQueue
from run_specialist.batch.item import Item
from run_specialist.batch.item_run import ItemRuns
from run_specialist.batch.scheduler import Scheduler
from run_specialist.errors import UsageError
from run_specialist.record.outcome import Exit, Outcome

AT_ONCE = 8
"""Default number of items in progress."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """The limits of a batch; raises UsageError for a number that is too small."""

    at_once: int = AT_ONCE
    """Maximum number of items in progress."""
    cost_limit: float | None = None
    """Cost limit of all items together, including earlier calls; None = no limit [USD]."""
    typical_cost: float = 0.0
    """Typical cost of an item, from past runs; 0 = unknown [USD]."""
    breaker: int = FAILURES
    """Number of consecutive failures of the same kind that pause the batch."""
    pause_limit: float = PAUSE_LIMIT
    """Maximum duration of a pause, after which the batch ends [s]."""

    def __post_init__(self) -> None:
        for name, least in (("at_once", 1), ("cost_limit", 0), ("breaker", 1), ("pause_limit", 0)):
            value = getattr(self, name)
            # A comparison with NaN is false.
            if value is not None and not value >= least:
                raise UsageError(f"{name} must be at least {least}, got {value}")


class Batch:
    """One question about each of many items, a few at a time.

    async for done in batch:
        print(done.number, done.state)

    The items are read one by one, and memory is bounded by the number of items in progress. Each is worked on until it
    has an outcome; `counts` counts all items by state. Repeating the call yields the stored outcomes of the items that
    have ended, and works on the others.
    """

    def __init__(  # noqa: PLR0913 - the parts of a batch
        self,
        batch_id: str,
        items: Callable[[], Iterable[Item]],
        runs: ItemRuns,
        bounds: Bounds | None = None,
        *,
        total: int | None = None,
        record: BatchRecord | None = None,
        run_id: Callable[[Item], str] | None = None,
        clock: Clock = time.time,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        """Take the items; nothing is read or begun before the first iteration.

        items: returns the items from the first one on; called once, or twice with a `total`.
        runs: begins, resumes and looks up the runs of items.
        total: number of items; None = not known before the end, and the items can be read only once.
        record: stores the batch; None = it is not stored.
        run_id: returns the id of the run of an item; None = it follows from the batch and the key of the item.
        """
        bounds = bounds or Bounds()
        self.id = batch_id
        """The same in every call for the same question, specialist, settings and source of items."""
        self.cost_limit = bounds.cost_limit
        """Of all items together; None = no limit [USD]."""
        grants = None
        if bounds.cost_limit is not None:
            slots = bounds.at_once if total is None else min(bounds.at_once, max(total, 1))
            grants = Grants(bounds.cost_limit, slots, typical=bounds.typical_cost)
        self._state = BatchState(
            batch_id,
            ItemQueue(items, total, bounds.at_once),
            runs,
            bounds.at_once,
            Breaker(bounds.breaker, bounds.pause_limit),
            grants,
            record or NoRecord(),
            clock,
            ChangeSignal(sleep),
            own_run_id=run_id,
        )
        self._scheduler = Scheduler(self._state)
        self._driver: asyncio.Task[None] | None = None
        self._has_ended = False

    async def __aiter__(self) -> AsyncIterator[Done]:
        """Yield each item as soon as it has ended, in the order of the ends.

        If the iteration is left, the items under way are aborted; the same call resumes them.
        Raises UsageError if the batch was iterated over before, or if no run can begin for any item; and what the
        iterator of the items raises, once the items under way have ended.
        """
        if self._driver is not None or self._has_ended:
            raise UsageError(f"the batch {self.id} was iterated over before; call `map` again for its outcomes")
        state = self._state
        state.tell(BatchStarted(self.id, state.inputs.total, state.at_once, self.cost_limit))
        self._driver = asyncio.create_task(self._scheduler.drive())
        try:
            while (done := await state.ended.get()) is not None:
                state.changes.happened()
                yield done
        finally:
            await self.aclose()
        if self._scheduler.error is not None:
            raise self._scheduler.error
        if state.ended_because == USAGE:
            raise UsageError(self.problem or "no run can begin")

    def stop(self, *, now: bool = False) -> None:
        """Start no more items. The items in progress end after their current turns, which are already paid for.

        now: abort the items in progress immediately; they can be resumed, too.
        """
        self._scheduler.stop(now=now)

    def only_read(self, reason: str | None = None, because: str = FLEET) -> None:
        """Only read the stored outcomes, because the batch belongs to a fleet; call this before the iteration.

        No request is sent, no model or credentials are needed, and nothing is stored.
        reason: why items have no outcome; None = all should have one.
        because: the value of `ended_because` if there is a reason.
        """
        self._state.only_reads = True
        self._state.record.only_read()
        if reason is not None:
            self._state.breaker.reason = reason
            self._state.end(because)

    async def aclose(self) -> None:
        """Abort the items in progress, and wait until their ends are stored."""
        if self._has_ended:
            return
        if self._driver is None:
            self._has_ended = True
            return
        if not self._driver.done():
            self._scheduler.stop(now=True)
            if not self._scheduler.is_open:
                self._driver.cancel()
            await asyncio.wait([self._driver])
        if not self._has_ended:
            self._has_ended = True
            await self._state.record.aclose()
            self._state.tell(BatchEnded(self.counts, self.cost_usd, self.ended_because))

    def reuse(self, written: Callable[[str], Outcome | None]) -> None:
        """Use outcomes that an earlier call has written, for runs that are not stored; call this before the iteration.

        written: returns the outcome of a run by its id; None if there is none.
        """
        self._state.written = written

    def listen(self, listener: BatchListener) -> None:
        """Call a listener with each event of the batch from now on, in order; one that raises is dropped."""
        self._state.listeners.append(listener)

    def listen_runs(self, listener: RunListener) -> None:
        """Call a listener with the item number and each event of its run, for all items that begin from now on.

        Items that ended in an earlier call have no events.
        """
        self._state.run_listeners.append(listener)

    @property
    def counts(self) -> Counts:
        """The current number of items in each state."""
        state = self._state
        not_run = state.inputs.not_run if self._has_ended else 0
        return state.tally.counts(under_way=len(state.under_way), not_run=not_run, total=state.inputs.total)

    @property
    def under_way(self) -> tuple[Item, ...]:
        """The items in progress, the newest last; may be read from any thread."""
        return tuple(working.item for working in [*self._state.under_way.values()])

    @property
    def cost_usd(self) -> float:
        """Known cost of all items that have ended, including their cost in earlier calls [USD]."""
        return self._state.cost_usd

    @property
    def unstored(self) -> int:
        """Number of runs of this call that are not stored, or not whole; a repeated call would pay for them again."""
        return self._state.unstored

    @property
    def paused(self) -> Pause | None:
        """The pause, with its kind, reason and end; None while items begin."""
        return self._state.breaker.pause

    @property
    def ended_because(self) -> str | None:
        """Why the batch ended before all items were done; None if it did not.

        `stopped`, `cost_limit`, `usage`, `store_lost`, `fleet`, or the `Outcome.error_kind` that ended it.
        """
        return self._state.ended_because

    @property
    def problem(self) -> str | None:
        """The newest error that paused or ended the batch, in one line; None if there was none."""
        return self._state.breaker.reason

    @property
    def exit_code(self) -> Exit:
        """The exit code of a command: 0 only if every item has an answer."""
        counts, reason = self.counts, self.ended_because
        if reason == STOPPED:
            return Exit.INTERRUPTED
        if reason == USAGE:
            return Exit.USAGE
        if reason in PAUSING | ENDING:
            return Exit.PROVIDER
        missing = counts.done - counts.has_answer + counts.not_run
        return Exit.NO_ANSWER if missing else Exit.OK

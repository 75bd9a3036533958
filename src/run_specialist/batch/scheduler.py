"""Begins the items of a batch while there is room, money and an endpoint that answers, and takes their outcomes."""

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from run_specialist.batch.batch_events import (
    BatchEvent,
    BatchPaused,
    BatchResumed,
    ItemEnded,
    ItemStarted,
    RunListener,
)
from run_specialist.batch.batch_record import BatchRecord
from run_specialist.batch.breaker import ENDING, MAY_BE_THE_ITEM, PAUSING, Breaker
from run_specialist.batch.changes import Changes
from run_specialist.batch.counts import USAGE, Tally
from run_specialist.batch.done import Done
from run_specialist.batch.grants import Grants
from run_specialist.batch.inputs import Inputs
from run_specialist.batch.item import Item
from run_specialist.batch.item_run import ItemRun, ItemRuns, NotAffordable
from run_specialist.errors import AtWork, RunSpecialistError
from run_specialist.record.events import Event, Replied
from run_specialist.record.outcome import Outcome

Clock = Callable[[], float]
"""Return the time [seconds since 1970]."""


@dataclass(eq=False, slots=True)
class Working:
    """An item under way."""

    item: Item
    is_probe: bool = False
    """Whether the end of a pause depends on it; False once its first request was answered."""
    run: ItemRun | None = None
    """None until it has been taken up."""
    grant: float | None = None
    """What it may spend of the limit of the batch [USD]."""
    spent: float = 0.0
    """What it has spent of it [USD]."""


@dataclass(eq=False)
class Scheduler:
    """Works on the items of one batch; `drive` runs as a task of its own."""

    batch_id: str
    inputs: Inputs
    runs: ItemRuns
    at_once: int
    breaker: Breaker
    grants: Grants | None
    record: BatchRecord
    clock: Clock
    changes: Changes
    tally: Tally = field(default_factory=Tally)
    cost_usd: float = 0.0
    """Known cost of the runs of all items that have ended, that of earlier calls included [USD]."""
    ended: asyncio.Queue[Done | None] = field(default_factory=asyncio.Queue)
    """The items that have ended; None after the last one."""
    ended_because: str | None = None
    error: Exception | None = None
    """What the iterator of the items, or the check before the first item, has raised."""
    under_way: dict[asyncio.Task[None], Working] = field(default_factory=dict)
    listeners: list[Callable[[BatchEvent], None]] = field(default_factory=list)
    run_listeners: list[RunListener] = field(default_factory=list)
    _stops_now: bool = False

    async def drive(self) -> None:
        """Begin items until there is none, or the batch ends early; then wait for those under way."""
        try:
            await self._begin()
            while (item := await self._next()) is not None:
                working = Working(item, is_probe=self.breaker.begin())
                self.under_way[asyncio.create_task(self._work(working))] = working
        except Exception as error:  # noqa: BLE001 - raised once the items under way have ended
            self.error = error
        while self.under_way:
            await self.changes.wait()
        try:
            await self._pass_on_earlier()
            await self.record.set_state("ended", self.ended_because)
        except Exception as error:  # noqa: BLE001 - as above
            self.error = self.error or error
        self.ended.put_nowait(None)

    def stop(self, *, now: bool) -> None:
        """Begin no more items, and abort those under way."""
        self.end("stopped")
        self._stops_now = self._stops_now or now
        for task, working in self.under_way.items():
            if working.run is not None:
                working.run.abort(after_turn=not self._stops_now)
            elif self._stops_now:
                task.cancel()

    def end(self, reason: str) -> None:
        """Begin no more items."""
        self.ended_because = self.ended_because or reason
        self.changes.happened()

    def tell(self, event: BatchEvent) -> None:
        """Pass an event to the listeners; one that raises is dropped."""
        for listener in tuple(self.listeners):
            try:
                listener(event)
            except Exception:  # noqa: BLE001 - foreign code
                self.listeners.remove(listener)

    async def _begin(self) -> None:
        await self.runs.check()
        spent = await self.record.open(() if self.inputs.total is None else self.inputs.read())
        if self.grants is not None:
            self.grants.spent += spent

    async def _next(self) -> Item | None:
        """Wait until an item may begin, and return it; None if none is left, or the batch ends early."""
        while self.ended_because is None:
            pause = self.breaker.wait(self.clock())
            if pause or not self._has_room:
                await self.changes.wait(pause if self._has_room else math.inf)
                continue
            item = self.inputs.next(probe=self.breaker.pause is not None, is_idle=not self.under_way)
            if item is not None:
                if self.inputs.is_recorded_one_by_one:
                    await self.record.add(item)
                return item
            if not self.under_way:
                return None
            await self.changes.wait()
        return None

    @property
    def _has_room(self) -> bool:
        # A consumer that is slower than the items must not let outcomes pile up.
        return len(self.under_way) < self.at_once and len(self.under_way) + self.ended.qsize() < 2 * self.at_once

    async def _work(self, working: Working) -> None:
        """Work on an item, and pass on its end unless it was taken back."""
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - a coroutine of a task
        done = None
        try:
            done = await self._done(working)
        except asyncio.CancelledError:
            self.inputs.drop()
            raise
        except Exception as error:  # noqa: BLE001 - a defect must not cost the other items
            done = Done(working.item, self._run_id(working.item), error=f"internal error: {error!r}", without_run="failed")
        finally:
            if working.grant is not None and self.grants is not None:
                self.grants.settle(working.grant, working.spent)
            if working.is_probe:
                self.breaker.probe_ended()
            if done is not None:
                self._pass_on(done)
            del self.under_way[task]
            self.changes.happened()

    async def _done(self, working: Working) -> Done | None:
        """Return what became of an item; None if it was taken back, or was not run."""
        item, run_id = working.item, self._run_id(working.item)
        try:
            run = working.run = await self.runs.take_up(item, run_id, partial(self._lend, working))
        except AtWork as error:
            return None if self.inputs.put_last(item) else Done(item, run_id, None, str(error), "at work elsewhere")
        except NotAffordable:
            self.inputs.drop()
            return None
        except RunSpecialistError as error:
            return await self._without_run(working, str(error))
        if run.ended is not None:
            return Done(item, run_id, run.ended, run.ended.error, is_earlier=True)
        outcome = await self._outcome(working, run)
        return await self._judged(working, outcome)

    async def _outcome(self, working: Working, run: ItemRun) -> Outcome:
        if self.ended_because == "stopped":
            run.abort(after_turn=not self._stops_now)
        for listener in self.run_listeners:
            run.listen(partial(listener, working.item.number))
        run.listen(partial(self._hear, working))
        self.tell(ItemStarted(working.item.number, run.run_id))
        outcome = await run.outcome()
        # Without a known price, the whole grant counts as spent.
        cost = outcome.cost_usd
        working.spent = (working.grant or 0.0) if cost is None else max(cost - run.cost_before, 0.0)
        return outcome

    async def _judged(self, working: Working, outcome: Outcome) -> Done | None:
        """Return the end of an item, or take it back if the endpoint is to blame and may recover."""
        done = Done(working.item, outcome.run_id, outcome, outcome.error)
        kind = outcome.error_kind
        if outcome.status != "failed" or kind not in PAUSING | ENDING:
            if outcome.status != "aborted":
                self.breaker.worked()
            return done
        error = outcome.error or kind
        if await self._failed(working, kind, error, outcome.retry_after):
            self.inputs.put_back(working.item, may_fail=False)
            return None
        if self.inputs.put_back(working.item, may_fail=kind in MAY_BE_THE_ITEM | ENDING):
            return None
        await self.record.mark_failed(working.item, None)
        return done

    async def _without_run(self, working: Working, error: str) -> Done | None:
        """Return the end of an item that no run could begin for, unless none can for any item."""
        item = working.item
        if await self._failed(working, USAGE, error, None):
            self.inputs.put_back(item, may_fail=False)
            return None
        await self.record.mark_failed(item, error)
        return Done(item, self._run_id(item), error=error, without_run="failed")

    async def _failed(self, working: Working, kind: str, error: str, retry_after: float | None) -> bool:
        """Register a failure; return whether the batch is paused or ends, so that no item is to blame."""
        before, now = self.breaker.pause, self.clock()
        run_id = self._run_id(working.item)
        was_open = self.breaker.failed(run_id, kind, error, retry_after, now, is_probe=working.is_probe)
        working.is_probe = False
        pause = self.breaker.pause
        if self.breaker.ended is not None:
            self.end(self.breaker.ended)
        elif pause is not None and pause is not before:
            self.tell(BatchPaused(pause.kind, pause.reason, round(pause.until - now, 3)))
            await self.record.set_state("paused", pause.reason)
        return was_open

    def _hear(self, working: Working, event: Event) -> None:
        """Close the breaker when a request of a probe has been answered."""
        if not isinstance(event, Replied):
            return
        pause = self.breaker.pause
        if self.breaker.answered(is_probe=working.is_probe) and pause is not None:
            self.tell(BatchResumed(pause.kind))
        working.is_probe = False
        self.changes.happened()

    async def _lend(self, working: Working, own: float | None) -> float | None:
        """Return the share of the cost limit of the batch that an item gets, when it can get one."""
        if self.grants is None:
            return None
        while self.ended_because is None:
            if (grant := self.grants.take(own)) is not None:
                working.grant = grant
                return grant
            if self.grants.is_exhausted:
                self.end("cost_limit")
                break
            await self.changes.wait()
        raise NotAffordable(self.batch_id)

    async def _pass_on_earlier(self) -> None:
        """After an early end, pass on the items left that an earlier call has brought to their end."""
        while self.inputs.total is not None and self.error is None and not self._stops_now:
            if (item := self.inputs.next(is_idle=True)) is None:
                return
            outcome = await self.runs.ended(self._run_id(item))
            if outcome is None:
                self.inputs.drop()
            else:
                self._pass_on(Done(item, outcome.run_id, outcome, outcome.error, is_earlier=True))
            while not self._has_room and not self._stops_now:
                await self.changes.wait()

    def _pass_on(self, done: Done) -> None:
        self.inputs.ended(done.item)
        self.tally.add(done)
        cost = kind = None
        if done.outcome is not None:
            cost, kind = done.outcome.cost_usd, done.outcome.error_kind
            self.cost_usd += cost or 0.0
        self.tell(ItemEnded(done.number, done.run_id, done.state, cost, kind, done.is_earlier))
        self.ended.put_nowait(done)

    def _run_id(self, item: Item) -> str:
        return f"{self.batch_id}-{item.key}"

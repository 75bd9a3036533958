"""Run a batch: start items while there is room, work on each, and keep the state of the whole."""

import asyncio
import math
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial

from run_specialist.batch.item import (
    BatchEnded,
    BatchEvent,
    BatchListener,
    BatchPaused,
    BatchResumed,
    BatchStarted,
    Counts,
    Done,
    Item,
    ItemCounter,
    ItemEnded,
    ItemRun,
    ItemRuns,
    ItemStarted,
    NotAffordable,
    RunListener,
)
from run_specialist.batch.limits import (
    ENDING,
    FAILURES,
    MAY_BE_THE_ITEM,
    PAUSE_LIMIT,
    PAUSING,
    USAGE,
    Breaker,
    Grants,
    Pause,
)
from run_specialist.batch.record import BatchRecord, NoRecord
from run_specialist.errors import AtWork, RunSpecialistError, StoreUnusable, UsageError
from run_specialist.record.events import Event, Replied
from run_specialist.record.outcome import Exit, Outcome

Sleep = Callable[[float], Awaitable[None]]
"""Waits for some seconds."""


class ChangeSignal:
    """Lets tasks wait for a change of state; after each wait they check their condition again."""

    def __init__(self, sleep: Sleep = asyncio.sleep) -> None:
        """Start without waiting tasks.

        sleep: replaced by tests.
        """
        self._event = asyncio.Event()
        self._sleep = sleep

    def happened(self) -> None:
        """Wake all waiting tasks."""
        self._event.set()

    async def wait(self, seconds: float = math.inf) -> None:
        """Wait for a change, but not longer than this many seconds."""
        self._event.clear()
        if math.isinf(seconds):
            await self._event.wait()
            return
        waits = [asyncio.ensure_future(self._event.wait()), asyncio.ensure_future(self._sleep(seconds))]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()


ATTEMPTS = 3
"""Maximum number of attempts for an item that may itself cause the failures of the endpoint."""


class ItemQueue:
    """Hands out items one by one. Memory is bounded, except for items that other processes work on."""

    def __init__(self, read: Callable[[], Iterable[Item]], total: int | None, waiting: int) -> None:
        """Take the items; nothing is read before `next`.

        read: returns the items from the first one on; called once if there is no total.
        total: number of items; None = not known before the end.
        waiting: number of taken-back items from which on they are handed out before new ones.
        """
        self.read = read
        self.total = total
        """Number of items; None until it is known."""
        self._new: Iterator[Item] | None = None
        self._waiting = waiting
        self._read = 0
        self._has_ended = self._is_finishing = False
        self._back: deque[Item] = deque()
        self._elsewhere: deque[Item] = deque()
        self._tried_elsewhere: set[int] = set()
        self._attempts: dict[int, int] = {}
        self._dropped = 0

    def next(self, *, probe: bool = False, is_idle: bool) -> Item | None:
        """Return the item to begin; None if there is none at the moment.

        probe: prefer an item that has failed.
        is_idle: whether no item is in progress, so that the only items left are those that another process works on.
        Exceptions of the iterator of the items are passed on.
        """
        if self._back and (probe or self._has_ended or len(self._back) >= self._waiting):
            return self._back.popleft()
        if (item := self._next_new()) is not None:
            return item
        if self._back:
            return self._back.popleft()
        self._is_finishing = self._is_finishing or is_idle
        return self._elsewhere.popleft() if self._elsewhere and self._is_finishing else None

    def _next_new(self) -> Item | None:
        if self._has_ended:
            return None
        if self._new is None:
            self._new = iter(self.read())
        try:
            item = next(self._new, None)
        except BaseException:
            self._has_ended = True
            raise
        if item is None:
            self._has_ended, self.total = True, self._read
        else:
            self._read += 1
        return item

    def put_back(self, item: Item, *, may_fail: bool) -> bool:
        """Take an item back because the endpoint failed; return False after too many attempts.

        may_fail: whether the failure counts as an attempt, because the item may have caused it.
        """
        if may_fail:
            attempts = self._attempts[item.number] = self._attempts.get(item.number, 0) + 1
            if attempts >= ATTEMPTS:
                return False
        self._back.append(item)
        return True

    def ended(self, item: Item) -> None:
        """Forget the attempts at an item that has ended."""
        self._attempts.pop(item.number, None)
        self._tried_elsewhere.discard(item.number)

    def put_last(self, item: Item) -> bool:
        """Take back an item that another process works on; return False if it was already put last."""
        if item.number in self._tried_elsewhere:
            return False
        self._tried_elsewhere.add(item.number)
        self._elsewhere.append(item)
        return True

    def drop(self) -> None:
        """Count an item that was handed out as not run."""
        self._dropped += 1

    @property
    def not_run(self) -> int:
        """Number of known items that were not handed out, or were taken back."""
        unread = 0 if self.total is None else self.total - self._read
        return unread + len(self._back) + len(self._elsewhere) + self._dropped


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


BREATH = 1_000
"""Number of items that are only counted, after which other tasks get a turn."""


class Scheduler:
    """Runs the items of one batch; `drive` runs as a separate task."""

    def __init__(self, state: BatchState) -> None:
        self._state = state
        self._work = ItemWork(state)
        self._was_paused = False
        self.is_open = False
        """Whether items may have begun."""
        self.error: Exception | None = None
        """The exception raised by the iterator of the items, or by the check before the first item."""

    async def drive(self) -> None:
        """Start items until none is left, or the batch ends early; then wait for the items in progress."""
        state = self._state
        try:
            await self._open()
            while not state.only_reads and (item := await self._next()) is not None:
                working = ActiveItem(item, is_probe=state.breaker.begin())
                task = asyncio.create_task(self._work.work(working))
                state.under_way[task] = working
                # A task that is cancelled before its first step runs none of its code.
                task.add_done_callback(self._ended)
        except Exception as error:  # noqa: BLE001 - raised once the items under way have ended
            self.error = error
        while state.under_way:
            await state.changes.wait()
        try:
            if self.error is None and state.inputs.total is not None:
                await self._pass_on_earlier()
            if state.only_reads and state.inputs.not_run and not state.ended_because:
                again = f"`specialists fleet retry {state.batch_id}`, then the same command"
                state.breaker.reason = f"the fleet has left items without an outcome; {again}"
                state.end(FLEET)
            await state.record.set_state("ended", state.ended_because)
        except Exception as error:  # noqa: BLE001 - as above
            self.error = self.error or error
        state.ended.put_nowait(None)

    def _ended(self, task: asyncio.Task[None]) -> None:
        del self._state.under_way[task]
        if task.cancelled():
            self._state.inputs.drop()
        self._state.changes.happened()

    def stop(self, *, now: bool) -> None:
        """Begin no more items, and abort the items in progress."""
        state = self._state
        state.end(STOPPED)
        if state.stops_now:
            return
        state.stops_now = now
        for task, working in state.under_way.items():
            if working.run is not None:
                working.run.abort(after_turn=not state.stops_now)
            elif state.stops_now:
                task.cancel()

    async def _open(self) -> None:
        """Check what all items need, and store the items; sends nothing."""
        state = self._state
        if not state.only_reads:
            await state.runs.check()
        # Without a total the items can be read only once, and are stored when they begin.
        is_sized = state.inputs.total is not None
        begun = await state.record.open(state.inputs.read() if is_sized else (), lambda: state.ended_because == STOPPED)
        if state.grants is not None and begun is not None:
            state.grants.count_earlier(begun.values())
        state.begun = set(begun) if is_sized and begun is not None else None
        self.is_open = True

    async def _next(self) -> Item | None:
        """Wait until an item may begin, and return it; None if none is left, or if the batch ends early."""
        state = self._state
        is_sized = state.inputs.total is not None
        while state.ended_because is None:
            pause = state.breaker.wait(state.clock())
            await self._record_end_of_pause()
            if pause or not state.has_room:
                await state.changes.wait(pause if state.has_room else math.inf)
                continue
            item = state.inputs.next(probe=state.breaker.pause is not None, is_idle=not state.under_way)
            if item is not None:
                if not is_sized:
                    await state.record.add(item)
                return item
            if not state.under_way:
                return None
            await state.changes.wait()
        return None

    async def _record_end_of_pause(self) -> None:
        is_paused = self._state.breaker.pause is not None
        if self._was_paused and not is_paused:
            await self._state.record.set_state("open")
        self._was_paused = is_paused

    async def _pass_on_earlier(self) -> None:
        """After an early end, or if nothing may run, report the remaining items that have an outcome already."""
        state = self._state
        while not state.stops_now and (item := state.inputs.next(is_idle=True)) is not None:
            run_id = state.run_id(item)
            how = {"however": True} if state.only_reads else {}
            outcome = None if state.is_new(run_id) else await state.runs.ended(run_id, **how)
            if outcome is None:
                state.inputs.drop()
                if item.number % BREATH == 0:
                    await asyncio.sleep(0)
            else:
                state.pass_on(Done(item, run_id, outcome, outcome.error, is_earlier=True))
            while not state.has_room and not state.stops_now:
                await state.changes.wait()


ENDPOINT = PAUSING | ENDING
"""Kinds of failures that say nothing about the item."""


class ItemWork:
    """Works on items until they end, or takes them back."""

    def __init__(self, state: BatchState) -> None:
        self._state = state

    async def work(self, working: ActiveItem) -> None:
        """Work on an item in a separate task, and report its end unless it was taken back."""
        state, done = self._state, None
        try:
            run_id = state.run_id(working.item)
            written = state.written(run_id)
            if written is None or not (state.is_new(run_id) or await self._is_cut(run_id, written)):
                done = await self._done(working)
            else:
                done = Done(working.item, run_id, written, written.error, is_earlier=True)
        except Exception as error:  # noqa: BLE001 - a defect must not cost the other items
            reason = f"internal error: {error!r}; please report it"
            done = Done(working.item, state.run_id(working.item), error=reason, without_run="failed")
        finally:
            if working.grant is not None and state.grants is not None:
                state.grants.settle(working.grant, working.spent)
            if working.is_probe:
                state.breaker.probe_ended()
        if done is not None:
            state.pass_on(done)

    async def _is_cut(self, run_id: str, written: Outcome) -> bool:
        """Return whether the store has the beginning of a run only, whose answer was written."""
        return written.status in {"answered", "landed"} and await self._state.runs.ended(run_id) is None

    async def _done(self, working: ActiveItem) -> Done | None:
        """Return the end of an item; None if it was taken back, or was not run."""
        item, state = working.item, self._state
        run_id = state.run_id(item)
        try:
            lend = partial(self._lend, working)
            run = working.run = await state.runs.take_up(item, run_id, lend, is_new=state.is_new(run_id))
        except AtWork as error:
            return None if state.put_last(item) else Done(item, run_id, None, str(error), "at work elsewhere")
        except NotAffordable:
            state.inputs.drop()
            return None
        except StoreUnusable as error:
            # Without the store the batch could not be continued later, and no other item can be stored either.
            state.breaker.reason = str(error)
            state.end("store_lost")
            state.inputs.drop()
            return None
        except RunSpecialistError as error:
            return await self._without_run(working, str(error))
        if run.ended is not None:
            return Done(item, run_id, run.ended, run.ended.error, is_earlier=True)
        outcome = await self._outcome(working, run)
        state.unstored += not run.is_kept
        return await self._judged(working, outcome)

    async def _lend(self, working: ActiveItem, own: float | None) -> float | None:
        """Return an item's share of the batch's cost limit, as soon as it is available."""
        state = self._state
        if state.grants is None:
            return None
        while state.ended_because is None:
            if (grant := state.grants.take(own)) is not None:
                working.grant = grant
                return grant
            if state.grants.is_exhausted:
                state.end("cost_limit")
                break
            await state.changes.wait()
        raise NotAffordable(state.batch_id)

    async def _outcome(self, working: ActiveItem, run: ItemRun) -> Outcome:
        state, number = self._state, working.item.number
        if state.ended_because == STOPPED:
            run.abort(after_turn=not state.stops_now)
        for listener in state.run_listeners:
            run.listen(partial(listener, number))
        run.listen(partial(self._hear, working))
        state.tell(ItemStarted(number, run.run_id))
        outcome = await run.outcome()
        # Without a known price, the whole grant counts as spent.
        cost = outcome.cost_usd
        working.spent = (working.grant or 0.0) if cost is None else max(cost - run.cost_before, 0.0)
        return outcome

    def _hear(self, working: ActiveItem, event: Event) -> None:
        """End the pause when a request of a probe has been answered."""
        if not isinstance(event, Replied):
            return
        breaker = self._state.breaker
        pause = breaker.pause
        if breaker.answered(is_probe=working.is_probe) and pause is not None:
            self._state.tell(BatchResumed(pause.kind))
            self._state.changes.happened()
        working.is_probe = False

    async def _judged(self, working: ActiveItem, outcome: Outcome) -> Done | None:
        """Return the end of an item, or take it back if the endpoint caused the failure."""
        state, item, kind = self._state, working.item, outcome.error_kind
        done = Done(item, state.run_id(item), outcome, outcome.error)
        if outcome.status != "failed" or kind not in ENDPOINT:
            if outcome.status != "aborted":
                state.breaker.worked()
            return done
        error = outcome.error or str(kind)
        if await self._is_paused_by(working, str(kind), error, outcome.retry_after):
            state.take_back(item, may_fail=False)
            return None
        if state.take_back(item, may_fail=kind in MAY_BE_THE_ITEM | ENDING):
            return None
        await state.record.mark_failed(item, None)
        return done

    async def _without_run(self, working: ActiveItem, error: str) -> Done | None:
        """Return the end of an item whose run could not begin; take it back if no run can begin for any item."""
        state, item = self._state, working.item
        if await self._is_paused_by(working, USAGE, error, None):
            state.take_back(item, may_fail=False)
            return None
        # Until a request was answered, the same error may be that of every item.
        if not state.breaker.has_answered and state.take_back(item, may_fail=True):
            return None
        await state.record.mark_failed(item, error)
        return Done(item, state.run_id(item), error=error, without_run="failed")

    async def _is_paused_by(self, working: ActiveItem, kind: str, error: str, retry_after: float | None) -> bool:
        """Register a failure; return whether the batch is paused or ends, so that no item counts as failed."""
        state, breaker = self._state, self._state.breaker
        before, now = breaker.pause, state.clock()
        run_id = state.run_id(working.item)
        is_open = breaker.failed(run_id, kind, error, retry_after, now, is_probe=working.is_probe)
        working.is_probe = False
        pause = breaker.pause
        if breaker.ended is not None:
            state.end(breaker.ended)
        elif pause is not None and pause is not before:
            state.tell(BatchPaused(pause.kind, pause.reason, round(pause.until - now, 3)))
            await state.record.set_state("paused", pause.reason)
        return is_open

"""Run a batch: start items while there is room, work on each, and keep the state of the whole."""

import asyncio
import math
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from run_specialist.batch import limits
from run_specialist.batch.item import (
    NO_ANSWER,
    BatchEnded,
    BatchEvent,
    BatchListener,
    BatchPaused,
    BatchResumed,
    BatchStarted,
    Counts,
    Done,
    Item,
    ItemEnded,
    ItemRuns,
    ItemStarted,
    NotAffordable,
    RunListener,
)
from run_specialist.batch.record import BatchRecord
from run_specialist.errors import AtWork, RunSpecialistError, StoreUnusable, UsageError
from run_specialist.record.events import Event, Replied
from run_specialist.record.outcome import Exit, Outcome

if TYPE_CHECKING:
    from run_specialist.loop.run import EndedRun, Run

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
        self.taken = 0
        """Number of items that were read."""
        self._new: Iterator[Item] | None = None
        self._waiting = waiting
        self._has_ended = self._is_finishing = False
        self._back: deque[Item] = deque()
        self._elsewhere: deque[Item] = deque()
        self._tried_elsewhere: set[int] = set()
        self._attempts: Counter[int] = Counter()

    def next(self, *, probe: bool = False, is_idle: bool) -> Item | None:
        """Return the item to begin; None if there is none at the moment.

        probe: prefer an item that has failed.
        is_idle: whether no item is in progress, so that the only items left are those that another process works on.
        Exceptions of the iterator of the items are passed on.
        """
        if self._back and (probe or self._has_ended or len(self._back) >= self._waiting):
            return self._back.popleft()
        if not self._has_ended:
            self._new = self._new or iter(self.read())
            # It is not read any further after an exception.
            self._has_ended = True
            if (item := next(self._new, None)) is not None:
                self._has_ended = False
                self.taken += 1
                return item
            self.total = self.taken
        if self._back:
            return self._back.popleft()
        self._is_finishing = self._is_finishing or is_idle
        return self._elsewhere.popleft() if self._elsewhere and self._is_finishing else None

    def put_back(self, item: Item, *, may_fail: bool) -> bool:
        """Take an item back because the endpoint failed; return False after too many attempts.

        may_fail: whether the failure counts as an attempt, because the item may have caused it.
        """
        self._attempts[item.number] += may_fail
        if may_fail and self._attempts[item.number] >= ATTEMPTS:
            return False
        self._back.append(item)
        return True

    def put_last(self, item: Item) -> bool:
        """Take back an item that another process works on; return False if it was already put last."""
        if item.number in self._tried_elsewhere:
            return False
        self._tried_elsewhere.add(item.number)
        self._elsewhere.append(item)
        return True


STOPPED = "stopped"
"""Reason of the end if the caller stopped the batch."""

FLEET = "fleet"
"""Reason of the end if the workers of a fleet have left items without an outcome."""

ENDPOINT = limits.PAUSING | limits.ENDING
"""Kinds of failures that say nothing about the item."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """The limits of a batch; raises UsageError for a number that is too small."""

    at_once: int = 8
    """Maximum number of items in progress."""
    cost_limit: float | None = None
    """Cost limit of all items together, including earlier calls; None = no limit [USD]."""
    typical_cost: float = 0.0
    """Typical cost of an item, from past runs; 0 = unknown [USD]."""
    breaker: int = limits.FAILURES
    """Number of consecutive failures of the same kind that pause the batch."""
    pause_limit: float = limits.PAUSE_LIMIT
    """Maximum duration of a pause, after which the batch ends [s]."""

    def __post_init__(self) -> None:
        for name, least in (("at_once", 1), ("cost_limit", 0), ("breaker", 1), ("pause_limit", 0)):
            value = getattr(self, name)
            # A comparison with NaN is false.
            if value is not None and not value >= least:
                raise UsageError(f"{name} must be at least {least}, got {value}")


@dataclass(eq=False, slots=True)
class ActiveItem:
    """An item in progress."""

    item: Item
    run_id: str
    is_probe: bool = False
    """Whether the pause ends if this item succeeds; False once its first request was answered."""
    run: "Run | EndedRun | None" = None
    """The run; None until it has been taken up."""
    grant: float | None = None
    """The amount that the item may spend of the limit of the batch [USD]."""
    spent: float = 0.0
    """The amount that the item has spent of the limit [USD]."""


class Batch:
    """One question about each of many items, a few at a time.

    async for done in batch:
        print(done.number, done.state)

    The items are read one by one, and memory is bounded by the number of items in progress. Each is worked on until it
    has an outcome; `counts` counts all items by state. Repeating the call yields the stored outcomes of the items that
    have ended, and works on the others.
    """

    cost_usd = 0.0
    """Known cost of all items that have ended, including their cost in earlier calls [USD]."""
    unstored = 0
    """Number of runs of this call that are not stored, or not whole; a repeated call would pay for them again."""
    ended_because: str | None = None
    """Why the batch ended before all items were done; None if it did not.

    `stopped`, `cost_limit`, `usage`, `store_lost`, `fleet`, or the `Outcome.error_kind` that ended it.
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
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Take the items; nothing is read or begun before the first iteration.

        items: returns the items from the first one on; called once, or twice with a `total`.
        runs: begins, resumes and looks up the runs of items.
        total: number of items; None = not known before the end, and the items can be read only once.
        record: stores the batch; None = it is not stored.
        run_id: returns the id of the run of an item; None = it follows from the batch and the key of the item.
        """
        self._bounds = bounds = bounds or Bounds()
        self.id = batch_id
        """The same in every call for the same question, specialist, settings and source of items."""
        self.cost_limit = bounds.cost_limit
        """Of all items together; None = no limit [USD]."""

        self._items = ItemQueue(items, total, bounds.at_once)
        # Whether the items can be read twice; otherwise they are stored when they begin.
        self._is_sized = total is not None
        self._runs = runs
        self._run_id = run_id or (lambda item: f"{batch_id}-{item.key}")
        self._record = record or BatchRecord()
        self._breaker = limits.Breaker(bounds.breaker, bounds.pause_limit)
        self._grants: limits.Grants | None = None
        if bounds.cost_limit is not None:
            slots = bounds.at_once if total is None else min(bounds.at_once, max(total, 1))
            self._grants = limits.Grants(bounds.cost_limit, slots, typical=bounds.typical_cost)
        self._clock, self._sleep = clock, sleep
        # Set if the state has changed for which tasks wait; after each wait they check their condition again.
        self._changed = asyncio.Event()

        # Ids of the runs that were stored when the batch was opened, or begun and taken back since; None = unknown.
        self._begun: set[str] | None = None
        self._under_way: dict[asyncio.Task[None], ActiveItem] = {}
        # Ended items for the caller; None follows the last one.
        self._done: asyncio.Queue[Done | None] = asyncio.Queue()
        # Ended items by state, and the failed ones by their kind of failure.
        self._states, self._failed = Counter[str](), Counter[str]()
        self._earlier = 0
        self._written: Callable[[str], Outcome | None] = lambda _: None
        self._listeners, self._run_listeners = list[BatchListener](), list[RunListener]()

        self._driver: asyncio.Task[None] | None = None
        # The exception raised by the iterator of the items, or by the check before the first item.
        self._error: Exception | None = None
        # Whether no run begins or is resumed, because the outcomes that a fleet has stored are read; whether items may
        # have begun; and whether those in progress must end immediately.
        self._only_reads = self._is_open = self._stops_now = False
        self._was_paused = self._has_ended = False

    async def __aiter__(self) -> AsyncIterator[Done]:
        """Yield each item as soon as it has ended, in the order of the ends.

        If the iteration is left, the items under way are aborted; the same call resumes them.
        Raises UsageError if the batch was iterated over before, or if no run can begin for any item; and what the
        iterator of the items raises, once the items under way have ended.
        """
        if self._driver is not None or self._has_ended:
            raise UsageError(f"the batch {self.id} was iterated over before; call `map` again for its outcomes")
        self._tell(BatchStarted(self.id, self._items.total, self._bounds.at_once, self.cost_limit))
        self._driver = asyncio.create_task(self._drive())
        try:
            while (done := await self._done.get()) is not None:
                self._changed.set()
                yield done
        finally:
            await self.aclose()
        if self._error is not None:
            raise self._error
        if self.ended_because == limits.USAGE:
            raise UsageError(self.problem or "no run can begin")

    def stop(self, *, now: bool = False) -> None:
        """Start no more items. The items in progress end after their current turns, which are already paid for.

        now: abort the items in progress immediately; they can be resumed, too.
        """
        self._end(STOPPED)
        if self._stops_now:
            return
        self._stops_now = now
        for task, working in self._under_way.items():
            if working.run is not None:
                working.run.abort(after_turn=not now)
            elif now:
                task.cancel()

    def only_read(self, reason: str | None = None, because: str = FLEET) -> None:
        """Only read the stored outcomes, because the batch belongs to a fleet; call this before the iteration.

        No request is sent, no model or credentials are needed, and nothing is stored.
        reason: why items have no outcome; None = all should have one.
        because: the value of `ended_because` if there is a reason.
        """
        self._only_reads = self._record.is_read_only = True
        if reason is not None:
            self._end(because, reason)

    async def aclose(self) -> None:
        """Abort the items in progress, and wait until their ends are stored."""
        if self._driver is not None and not self._driver.done():
            self.stop(now=True)
            if not self._is_open:
                self._driver.cancel()
            await asyncio.wait([self._driver])
        if not self._has_ended:
            self._has_ended = True
            await self._record.aclose()
            if self._driver is not None:
                self._tell(BatchEnded(self.counts, self.cost_usd, self.ended_because))

    def reuse(self, written: Callable[[str], Outcome | None]) -> None:
        """Use outcomes that an earlier call has written, for runs that are not stored; call this before the iteration.

        written: returns the outcome of a run by its id; None if there is none.
        """
        self._written = written

    def listen(self, listener: BatchListener) -> None:
        """Call a listener with each event of the batch from now on, in order; one that raises is dropped."""
        self._listeners.append(listener)

    def listen_runs(self, listener: RunListener) -> None:
        """Call a listener with the item number and each event of its run, for all items that begin from now on.

        Items that ended in an earlier call have no events.
        """
        self._run_listeners.append(listener)

    @property
    def counts(self) -> Counts:
        """The current number of items in each state."""
        return Counts(
            **{state.replace(" ", "_"): number for state, number in self._states.items()},
            failed=dict(self._failed.most_common()),
            not_run=self._not_run if self._has_ended else 0,
            under_way=len(self._under_way),
            earlier=self._earlier,
            total=self._items.total,
        )

    @property
    def _not_run(self) -> int:
        known = self._items.taken if self._items.total is None else self._items.total
        return known - self._states.total() - self._failed.total()

    @property
    def under_way(self) -> tuple[Item, ...]:
        """The items in progress, the newest last; may be read from any thread."""
        return tuple(working.item for working in [*self._under_way.values()])

    @property
    def paused(self) -> limits.Pause | None:
        """The pause, with its kind, reason and end; None while items begin."""
        return self._breaker.pause

    @property
    def problem(self) -> str | None:
        """The newest error that paused or ended the batch, in one line; None if there was none."""
        return self._breaker.reason

    @property
    def exit_code(self) -> Exit:
        """The exit code of a command: 0 only if every item has an answer."""
        if self.ended_because == STOPPED:
            return Exit.INTERRUPTED
        if self.ended_because == limits.USAGE:
            return Exit.USAGE
        if self.ended_because in ENDPOINT:
            return Exit.PROVIDER
        counts = self.counts
        return Exit.NO_ANSWER if counts.done > counts.has_answer or counts.not_run else Exit.OK

    async def _drive(self) -> None:
        """Start items until none is left, or the batch ends early; then wait for the items in progress."""

        def has_worked(task: asyncio.Task[None]) -> None:
            del self._under_way[task]
            self._changed.set()

        try:
            await self._open()
            while not self._only_reads and (item := await self._next()) is not None:
                working = ActiveItem(item, self._run_id(item), is_probe=self._breaker.begin())
                task = asyncio.create_task(self._work(working))
                self._under_way[task] = working
                task.add_done_callback(has_worked)
        except Exception as error:  # noqa: BLE001 - raised once the items under way have ended
            self._error = error
        while self._under_way:
            await self._wait()
        try:
            if self._error is None and self._items.total is not None:
                await self._pass_on_earlier()
            if self._only_reads and self._not_run:
                again = f"`specialists fleet retry {self.id}`, then the same command"
                self._end(FLEET, f"the fleet has left items without an outcome; {again}")
            await self._record.set_state("ended", self.ended_because)
        except Exception as error:  # noqa: BLE001 - as above
            self._error = self._error or error
        self._done.put_nowait(None)

    async def _open(self) -> None:
        """Check what all items need, and store the items; sends nothing."""
        if not self._only_reads:
            await self._runs.check()
        items = ((self._run_id(item), item) for item in (self._items.read() if self._is_sized else ()))
        begun = await self._record.open(items, lambda: self.ended_because == STOPPED)
        if self._grants is not None and begun is not None:
            self._grants.count_earlier(begun.values())
        self._begun = set(begun) if self._is_sized and begun is not None else None
        self._is_open = True

    async def _next(self) -> Item | None:
        """Wait until an item may begin, and return it; None if none is left, or if the batch ends early."""
        while self.ended_because is None:
            seconds, is_paused = self._breaker.wait(self._clock()), self._breaker.pause is not None
            if self._was_paused and not is_paused:
                await self._record.set_state("open")
            self._was_paused = is_paused
            if seconds or not self._has_room:
                await self._wait(seconds if self._has_room else math.inf)
                continue
            item = self._items.next(probe=is_paused, is_idle=not self._under_way)
            if item is None and self._under_way:
                await self._wait()
                continue
            if item is not None and not self._is_sized:
                await self._record.add(self._run_id(item), item)
            return item
        return None

    async def _work(self, working: ActiveItem) -> None:
        """Work on an item in a separate task, and report its end unless it was taken back."""
        item, run_id, done = working.item, working.run_id, None
        try:
            written, is_new = self._written(run_id), self._is_new(run_id)
            # The store may have only the beginning of a run whose answer was written.
            if written is not None and (
                is_new or (written.status in {"answered", "landed"} and await self._runs.ended(run_id) is None)
            ):
                done = Done(item, run_id, written, written.error, is_earlier=True)
            else:
                done = await self._worked(working, is_new=is_new)
        except Exception as error:  # noqa: BLE001 - a defect must not cost the other items
            reason = f"internal error: {error!r}; please report it"
            done = Done(item, run_id, error=reason, without_run="failed")
        finally:
            if working.grant is not None and self._grants is not None:
                self._grants.settle(working.grant, working.spent)
            if working.is_probe:
                self._breaker.probe_ended()
        if done is not None:
            self._pass_on(done)
        elif self._begun is not None:
            self._begun.add(run_id)

    async def _worked(self, working: ActiveItem, *, is_new: bool) -> Done | None:
        """Return the end of an item; None if it was taken back, or was not run."""
        item, run_id = working.item, working.run_id
        try:
            run = working.run = await self._runs.take_up(item, run_id, partial(self._lend, working), is_new=is_new)
        except AtWork as error:
            return None if self._items.put_last(item) else Done(item, run_id, None, str(error), "at work elsewhere")
        except NotAffordable:
            return None
        except StoreUnusable as error:
            # Without the store the batch could not be continued later, and no other item can be stored either.
            self._end("store_lost", str(error))
            return None
        except RunSpecialistError as error:
            is_paused = await self._is_paused_by(working, limits.USAGE, str(error), None)
            # Until a request was answered, the same error may be that of every item.
            may_be_all = is_paused or not self._breaker.has_answered
            if may_be_all and self._items.put_back(item, may_fail=not is_paused):
                return None
            await self._record.mark_failed(run_id, str(error))
            return Done(item, run_id, error=str(error), without_run="failed")
        if run.ended is not None:
            return Done(item, run_id, run.ended, run.ended.error, is_earlier=True)

        if self.ended_because == STOPPED:
            run.abort(after_turn=not self._stops_now)
        for listener in self._run_listeners:
            run.listen(partial(listener, item.number))
        run.listen(partial(self._hear, working))
        self._tell(ItemStarted(item.number, run.run_id))
        outcome = await run.outcome()
        # Without a known price, the whole grant counts as spent.
        cost = outcome.cost_usd
        working.spent = (working.grant or 0.0) if cost is None else max(cost - run.cost_before, 0.0)
        self.unstored += not run.is_kept

        kind = outcome.error_kind
        if outcome.status == "failed" and kind in ENDPOINT:
            is_paused = await self._is_paused_by(working, kind, outcome.error or kind, outcome.retry_after)
            if self._items.put_back(item, may_fail=not is_paused and kind in limits.MAY_BE_THE_ITEM | limits.ENDING):
                return None
            await self._record.mark_failed(run_id, None)
        elif outcome.status != "aborted":
            self._breaker.worked()
        return Done(item, run_id, outcome, outcome.error)

    async def _lend(self, working: ActiveItem, own: float | None) -> float | None:
        """Return an item's share of the batch's cost limit, as soon as it is available."""
        if self._grants is None:
            return None
        while self.ended_because is None:
            if (grant := self._grants.take(own)) is not None:
                working.grant = grant
                return grant
            if self._grants.is_exhausted:
                self._end("cost_limit")
                break
            await self._wait()
        raise NotAffordable(self.id)

    def _hear(self, working: ActiveItem, event: Event) -> None:
        """End the pause when a request of a probe has been answered."""
        if not isinstance(event, Replied):
            return
        pause = self._breaker.pause
        if self._breaker.answered(is_probe=working.is_probe) and pause is not None:
            self._tell(BatchResumed(pause.kind))
            self._changed.set()
        working.is_probe = False

    async def _is_paused_by(self, working: ActiveItem, kind: str, error: str, retry_after: float | None) -> bool:
        """Register a failure; return whether the batch is paused or ends, so that no item counts as failed."""
        breaker, before, now = self._breaker, self._breaker.pause, self._clock()
        is_open = breaker.failed(working.run_id, kind, error, retry_after, now, is_probe=working.is_probe)
        working.is_probe = False
        pause = breaker.pause
        if breaker.ended is not None:
            self._end(breaker.ended)
        elif pause is not None and pause is not before:
            self._tell(BatchPaused(pause.kind, pause.reason, round(pause.until - now, 3)))
            await self._record.set_state("paused", pause.reason)
        return is_open

    async def _pass_on_earlier(self) -> None:
        """After an early end, or if nothing may run, report the remaining items that have an outcome already."""
        while not self._stops_now and (item := self._items.next(is_idle=True)) is not None:
            run_id = self._run_id(item)
            how = {"however": True} if self._only_reads else {}
            outcome = None if self._is_new(run_id) else await self._runs.ended(run_id, **how)
            if outcome is not None:
                self._pass_on(Done(item, run_id, outcome, outcome.error, is_earlier=True))
            while not self._has_room and not self._stops_now:
                await self._wait()

    def _pass_on(self, done: Done) -> None:
        """Count an ended item, and pass it to the caller."""
        outcome = done.outcome
        cost, kind = (None, None) if outcome is None else (outcome.cost_usd, outcome.error_kind)
        self.cost_usd += cost or 0.0
        self._earlier += done.is_earlier
        if done.state == "failed":
            self._failed[limits.USAGE if outcome is None else kind or NO_ANSWER] += 1
        else:
            self._states[done.state] += 1
        self._tell(ItemEnded(done.number, done.run_id, done.state, cost, kind, done.is_earlier))
        self._done.put_nowait(done)

    @property
    def _has_room(self) -> bool:
        """Whether another item may begin."""
        # A caller that is slower than the items must not let outcomes pile up.
        busy, most = len(self._under_way), self._bounds.at_once
        return busy < most and busy + self._done.qsize() < 2 * most

    def _is_new(self, run_id: str) -> bool:
        """Return whether no run with this id was stored when the batch was opened, or begun since."""
        return self._begun is not None and run_id not in self._begun

    async def _wait(self, seconds: float = math.inf) -> None:
        """Wait for a change, but not longer than this many seconds."""
        self._changed.clear()
        waits: list[asyncio.Future[Any]] = [asyncio.ensure_future(self._changed.wait())]
        if not math.isinf(seconds):
            waits.append(asyncio.ensure_future(self._sleep(seconds)))
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    def _end(self, reason: str, problem: str | None = None) -> None:
        """Begin no more items; only the first reason is kept.

        problem: the error that caused it, in one line.
        """
        if problem is not None and self.ended_because is None:
            self._breaker.reason = problem
        self.ended_because = self.ended_because or reason
        self._changed.set()

    def _tell(self, event: BatchEvent) -> None:
        """Pass an event to the listeners; a listener that raises is dropped."""
        for listener in tuple(self._listeners):
            try:
                listener(event)
            except Exception:  # noqa: BLE001 - foreign code
                self._listeners.remove(listener)

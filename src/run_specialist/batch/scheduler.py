"""Start the items of a batch while there is room and the endpoint answers, until none is left."""

import asyncio
import math

from run_specialist.batch.batch_state import FLEET, STOPPED, ActiveItem, BatchState
from run_specialist.batch.done import Done
from run_specialist.batch.item import Item
from run_specialist.batch.item_work import ItemWork

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

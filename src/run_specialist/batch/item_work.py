"""Work on one item at a time: take up its run, grant its share of the cost limit, and judge its outcome."""

from functools import partial

from run_specialist.batch.batch_events import BatchPaused, BatchResumed, ItemStarted
from run_specialist.batch.batch_state import STOPPED, ActiveItem, BatchState
from run_specialist.batch.breaker import ENDING, MAY_BE_THE_ITEM, PAUSING, USAGE
from run_specialist.batch.done import Done
from run_specialist.batch.item_run import ItemRun, NotAffordable
from run_specialist.errors import AtWork, RunSpecialistError, StoreUnusable
from run_specialist.record.events import Event, Replied
from run_specialist.record.outcome import Outcome

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

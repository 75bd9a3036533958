"""Work on one job: take up the run of its item, wait for its outcome, and decide about the job."""

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from run_specialist.errors import AtWork, RunSpecialistError, StoreUnusable, UsageError
from run_specialist.fleet.batch_here import BatchHere
from run_specialist.fleet.job_verdict import JobFinished, JobRequeued, Verdict, judge, unbegun
from run_specialist.fleet.queue import FleetJob, Queue, StartedItem
from run_specialist.fleet.shares import share
from run_specialist.fleet.worker_log import Log
from run_specialist.record.events import Event, ModelChanged, Retrying, Waiting
from run_specialist.record.outcome import Outcome
from run_specialist.store import owners
from run_specialist.store.server_owner import challenge

if TYPE_CHECKING:
    from run_specialist.api.ended_run import EndedRun
    from run_specialist.loop.run import Run

MAX_TAKEOVERS = 3
"""Number of takeovers without a new turn after which an item is abandoned, because it may kill its workers."""
DEAD = (
    "given up: {} workers ended while they worked on it, without a new turn; `specialists fleet retry` tries it again"
)

_log = logging.getLogger(__name__)


class JobWork:
    """Works on one job."""

    def __init__(self, job: FleetJob, batch: BatchHere, queue: Queue, slots: int, log: Log) -> None:
        """Prepare the work.

        batch: the batch of the job.
        slots: number of items that this worker runs concurrently.
        log: called with lines for the operator.
        """
        self.job = job
        self.outcome: Outcome | None = None
        """The outcome of its run; None while there is none."""
        self._log = log
        self.is_cancelled = False
        """Whether the batch was cancelled."""
        self._batch, self._queue, self._slots = batch, queue, slots
        self._run: Run | EndedRun | None = None
        self._abort: Callable[[Run | EndedRun], None] | None = None

    def abort(self, *, after_turn: bool) -> None:
        """End the run, so that the job can be handed back.

        after_turn: first complete and store the current reply and the results of its calls.
        """
        self._abort = lambda run: run.abort(after_turn=after_turn)
        if self._run is not None:
            self._abort(self._run)

    async def verdict(self) -> Verdict:
        """Work on the job until its verdict is known.

        Raises QueueAway or StoreUnusable if the database does not answer before the run has begun.
        """
        try:
            begun = await self._queue.begin(self.job)
        except StoreUnusable:
            raise
        except UsageError as error:
            return JobFinished(error=str(error))
        _log.debug("%s: %s", self.job.run_id, begun)
        if begun is None:
            return JobFinished(state=None)
        if begun.taken_over and not begun.has_ended and await self._is_dead(begun):
            return JobFinished("dead", DEAD.format(begun.takeovers))
        refused = await self._begin(begun)
        if refused is not None or self._run is None:
            return refused or JobRequeued()
        if begun.taken_over and self._run.ended is not None:
            # It ended in between, so no worker has abandoned it.
            await self._queue.uncount(self.job)
        if self._abort is not None:
            self._abort(self._run)
        self._run.listen(self._hear)
        self.outcome = outcome = await self._run.outcome()
        return judge(outcome, self.job.attempts, cancelled=self.is_cancelled)

    async def _begin(self, begun: StartedItem) -> Verdict | None:
        """Take up the run; return the verdict on the job if that fails."""
        try:
            self._run = await self._taken_up(begun)
        except RunSpecialistError as error:
            _log.debug("%s: %s", self.job.run_id, error)
            if isinstance(error, AtWork) and begun.taken_over:
                await self._queue.uncount(self.job)
            return unbegun(error)
        return None

    async def _taken_up(self, begun: StartedItem) -> "Run | EndedRun":
        """Return the run of the item; a run that failed because of the endpoint is resumed."""
        retry, question = [*self.job.retry], begun.question
        lend = self._lend if begun.has_cost_limit else None
        run = await self._batch.take_up(self.job.run_id, question, retry, lend)
        if run.ended is not None and isinstance(judge(run.ended, self.job.attempts), JobRequeued):
            return await self._batch.take_up(self.job.run_id, question, [*retry, run.ended.status], lend)
        return run

    async def _lend(self, own: float | None) -> float | None:
        """Return the item's share of the batch's cost limit, reserved before its run begins."""
        frozen = self._batch.frozen
        return await share(
            self._queue,
            self.job,
            own,
            worker_slots=self._slots,
            batch_slots=frozen.at_once,
            typical=frozen.typical_cost,
        )

    def _hear(self, event: Event) -> None:
        """Log what the endpoint refuses, which the run itself survives."""
        match event:
            case Retrying():
                status = "" if event.status is None else f"HTTP {event.status}, "
                line = f"{status}{event.reason}; retry {event.attempt} in {event.seconds:.1f} s"
            case Waiting(phase="started"):
                line = f"waits: {event.reason}"
            case ModelChanged():
                line = f"continues with {event.model}: {event.reason}"
            case _:
                return
        self._log(line, level="warning", item=self.job.run_id)

    async def _is_dead(self, begun: StartedItem) -> bool:
        """Return whether an item is abandoned; ends the session of a frozen worker, so that its run can be taken up."""
        url, owner = self._queue.connection.url, begun.owner
        was_held = owner is not None and await asyncio.to_thread(challenge, url, owner)
        if begun.takeovers < MAX_TAKEOVERS:
            return False
        if owner is None:
            return True
        if was_held:
            # A live worker reconnects in this time, and its item is not dead.
            await asyncio.sleep(owners.GRACE)
        return not await asyncio.to_thread(owners.is_alive, url, owner)

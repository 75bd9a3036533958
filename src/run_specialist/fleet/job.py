"""Work on one job: run the item, decide what happens with the job, and take a share of the cost limit."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from run_specialist.batch.item import LimitReached, NotAffordable
from run_specialist.batch.limits import Grants
from run_specialist.budget import dollars
from run_specialist.errors import (
    AtWork,
    NoCredentials,
    NothingToRead,
    NotTrusted,
    RunSpecialistError,
    StoreUnusable,
    UsageError,
)
from run_specialist.fleet.batches import BatchHere
from run_specialist.fleet.queue import BATCHES, ITEMS, JOBS, LOG, RUNS, FleetJob, Queue, StartedItem
from run_specialist.fleet.worker_log import Log
from run_specialist.record.events import Event, ModelChanged, Retrying, Waiting
from run_specialist.record.outcome import Outcome
from run_specialist.spawning.spawner import PriceUnknown
from run_specialist.store import owners
from run_specialist.store.postgresql import challenge
from run_specialist.store.rows import pack

if TYPE_CHECKING:
    from run_specialist.api.run_maker import EndedRun
    from run_specialist.loop.run import Run


STORE_DELAY = 2.0
"""Delay before an item whose run could not be stored is taken again [s]."""
SHARE_DELAY = 2.0
"""Delay before an item for which the cost limit currently leaves too little is taken again [s]."""
AT_WORK_DELAY = 10.0
"""Delay before an item whose run is in progress elsewhere is taken again [s]."""
SERVER_ERROR_DELAY = 30.0
"""Delay after the first server error of an item; it doubles [s]."""
MAX_SERVER_ERRORS = 3
"""Number of server errors after which an item counts as failed, because its question may cause them."""
PAUSING = frozenset({"rate_limited", "overloaded", "quota", "connection"})
"""Kinds of failure not caused by the item: the whole batch waits, and the item is resumed."""


@dataclass(frozen=True, slots=True)
class JobFinished:
    """The job is removed from the queue."""

    state: str | None = "ended"
    """State of the item; None = unchanged."""
    error: str | None = None


@dataclass(frozen=True, slots=True)
class JobRequeued:
    """The job goes back to the queue."""

    delay: float = 0.0
    """Time before a worker may take it [s]."""
    waits: bool = True
    """Whether the item waits; False if its run is in progress elsewhere."""
    counts: bool = False
    """Whether it counts as an attempt of the job."""
    closes: bool = False
    """Whether the whole batch waits for its endpoint."""
    wait: float | None = None
    """The wait that the endpoint requests; None = it requests none [s]."""
    stops: str | None = None
    """Why this worker, or with `pauses` the batch, must stop; None = it may continue."""
    pauses: bool = False
    """Whether the batch is paused until a person resumes it."""
    refuses: bool = False
    """Whether this worker takes no more items of the batch, because it lacks something that each of them needs."""
    reason: str = ""


Verdict = JobFinished | JobRequeued


def judge(outcome: Outcome, attempts: int, *, cancelled: bool = False) -> Verdict:
    """Return the verdict on the job of a run.

    attempts: earlier server errors of this item.
    cancelled: whether the batch was cancelled, which aborts its runs.
    """
    if outcome.error_kind == "store_lost":
        return JobRequeued(STORE_DELAY)
    if outcome.status == "aborted":
        return JobFinished("cancelled") if cancelled else JobRequeued()
    if outcome.status != "failed":
        return JobFinished()
    kind, reason = outcome.error_kind, outcome.error or ""
    if kind in PAUSING:
        return JobRequeued(closes=True, wait=outcome.retry_after, reason=reason)
    if kind in {"credentials", "model_missing"}:
        return JobRequeued(stops=reason, pauses=kind == "model_missing")
    if kind == "server_error" and attempts < MAX_SERVER_ERRORS - 1:
        return JobRequeued(SERVER_ERROR_DELAY * 2**attempts, counts=True, reason=reason)
    return JobFinished()


def unbegun(error: RunSpecialistError) -> Verdict:
    """Return the verdict on the job of an item whose run could not begin."""
    match error:
        case AtWork():
            return JobRequeued(AT_WORK_DELAY, waits=False)
        case StoreUnusable():
            return JobRequeued(STORE_DELAY)
        case LimitReached():
            return JobFinished(state=None)
        case NotAffordable():
            return JobRequeued(SHARE_DELAY)
        case PriceUnknown():
            return JobRequeued(stops=str(error), pauses=True)
        case NoCredentials() | NotTrusted() | NothingToRead():
            return JobRequeued(refuses=True, reason=str(error))
    return JobFinished(error=str(error))


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
        job, question = self.job, begun.question
        lend = self._lend if begun.has_cost_limit else None
        try:
            run = await self._batch.take_up(job.run_id, question, job.retry, lend)
            if run.ended is not None and isinstance(judge(run.ended, job.attempts), JobRequeued):
                # A run that failed because of the endpoint is resumed.
                run = await self._batch.take_up(job.run_id, question, [*job.retry, run.ended.status], lend)
        except RunSpecialistError as error:
            _log.debug("%s: %s", self.job.run_id, error)
            if isinstance(error, AtWork) and begun.taken_over:
                await self._queue.uncount(self.job)
            return unbegun(error)
        self._run = run
        return None

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


SPARE = 1
"""Number of shares reserved for workers that start later."""


async def share(  # noqa: PLR0913 - what the share depends on
    queue: Queue, job: FleetJob, own: float | None, *, worker_slots: int, batch_slots: int, typical: float
) -> float | None:
    """Reserve the share of an item and return it; None without a limit [USD].

    An earlier reservation of the item, whose worker may have died, is replaced. If no item can begin any more, the
    batch ends and its jobs are removed; the items stay, so that a call with a higher limit puts them back.
    own: the remainder of the run's own limit; None = no limit [USD].
    worker_slots: how many items a worker works on at the same time.
    batch_slots: how many items the fleet may work on at the same time; 0 = any number.
    typical: cost of an item, from past runs; 0 = unknown [USD].
    Raises NotAffordable while other items may return a part of their shares, LimitReached if none can.
    """
    batch, run = job.batch_id, job.run_id
    async with queue.connection.transaction() as fetch:
        (locked,) = await fetch(LOCK, batch)
        if locked["cost_limit"] is None:
            return None
        if not await fetch(MINE, job.job_id, queue.worker):
            raise NotAffordable(batch)
        limit = float(locked["cost_limit"])
        (sums,) = await fetch(TAKEN, batch, run)
        (fleet,) = await fetch(FLEET, batch)
        taken, under_way = float(sums["taken"]), int(sums["under_way"])
        slots = batch_slots or int(fleet["workers"]) * worker_slots + SPARE
        free = max(min(slots, int(fleet["jobs"])) - under_way, 1)
        grants = Grants(limit, free, spent=taken, typical=max(typical, float(sums["dearest"])))
        granted = grants.take(own)
        if granted is not None:
            await fetch(RESERVE, batch, run, float(sums["own"]) + granted)
            return granted
        if not under_way:
            await fetch(WAIT_AGAIN, batch, run)
            await fetch(END, batch, pack(reached(limit)))
            await fetch(REMOVE, batch, job.job_id)
    raise NotAffordable(batch) if under_way else LimitReached(batch)


def reached(limit: float) -> str:
    """Return the reason of a batch that ended at its limit [USD]."""
    return f"the cost limit of {dollars(limit)} leaves too little for another item"


LOCK = f"select cost_limit from {BATCHES} where batch_id = $1 for update"
"""Selects the limit of a batch, and locks it against other workers that request a share."""

MINE = f"select id from {JOBS} where id = $1 and queue_manager_id = $2 for update"
"""Selects a job if the worker still holds it; values: job, worker."""

TAKEN = f"""
select coalesce(sum(greatest(coalesce(i.granted, 0), coalesce(r.cost_usd, 0))) filter (where i.run_id <> $2), 0)
        + coalesce(max(r.cost_usd) filter (where i.run_id = $2), 0) as taken,
    coalesce(max(r.cost_usd), 0) as dearest, coalesce(max(r.cost_usd) filter (where i.run_id = $2), 0) as own,
    count(*) filter (where i.run_id <> $2 and i.state = 'begun' and i.granted is not null) as under_way
from {ITEMS} i left join {RUNS} r on r.run_id = i.run_id where i.batch_id = $1
"""
"""Selects the spent and the granted amounts of the items of a batch, for the requesting item; values: batch, run.

`taken`: of all items, without the earlier grant of the requesting item; `dearest`: cost of the most expensive run;
`own`: cost of the item so far [USD]; `under_way`: other items with a grant.
"""

FLEET = f"""
select count(*) as jobs, count(distinct queue_manager_id) filter (where status = 'picked') as workers
from {JOBS} where entrypoint = $1
"""
"""Counts the jobs of a batch, and the workers that hold some."""

RESERVE = f"update {ITEMS} set granted = $3 where batch_id = $1 and run_id = $2"
"""Grants an item the maximum cost of its run; values: batch, run, cost [USD]."""

WAIT_AGAIN = f"update {ITEMS} set state = 'waiting', granted = null where batch_id = $1 and run_id = $2"
"""Makes an item wait again whose request for a share failed; values: batch, run."""

END = f"update {BATCHES} set state = 'ended', reason = $2 where batch_id = $1 and state in ('open', 'paused')"
"""Ends a batch whose limit leaves too little for another item; values: batch, packed reason."""

REMOVE = f"""
with gone as (
    delete from {JOBS} where entrypoint = $1 and (status <> 'picked' or id = $2) returning id, entrypoint, priority
)
insert into {LOG} (job_id, status, entrypoint, priority) select id, 'canceled', entrypoint, priority from gone
"""
"""Deletes the jobs of a batch that no worker holds, and one more; values: batch, job. Their items stay unchanged."""

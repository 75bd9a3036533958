"""A worker of the fleet: takes jobs, works on them, sends heartbeats, repairs the queue and reports metrics."""

import asyncio
import logging
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal

from run_specialist import errors
from run_specialist.batch.item import LimitReached, NotAffordable
from run_specialist.budget import dollars
from run_specialist.fleet.batches import BatchHere, BatchStatus, KnownBatches, Root, cannot_run, set_state, statuses
from run_specialist.fleet.queue import SILENCE, FleetJob, Heartbeat, Queue, QueueAway, StartedItem, WaitingBatch
from run_specialist.fleet.worker_log import HealthFile, Level, Log
from run_specialist.loop.observing import SCOPE
from run_specialist.providers.admission import GATES
from run_specialist.record.events import Event, ModelChanged, Retrying, Waiting
from run_specialist.record.outcome import Exit, Outcome
from run_specialist.spawning.spawner import PriceUnknown
from run_specialist.store import owners
from run_specialist.store.postgresql import challenge

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, Meter, Observation

    from run_specialist.loop.run import EndedRun, Run


STORE_DELAY = 2.0
"""Delay before an item whose run could not be stored is taken again [s]."""
SHARE_DELAY = 2.0
"""Delay before an item for which the cost limit currently leaves too little is taken again [s]."""
AT_WORK_DELAY = 10.0
"""Delay before an item whose run is in progress elsewhere is taken again [s]."""
# Delay after the first server error of an item; it doubles [s].
_SERVER_ERROR_DELAY = 30.0
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
    also: Literal["close the gate", "pause the batch", "refuse the batch", "stop the worker"] | None = None
    """Close the gate: the whole batch waits for its endpoint. Pause: until a person resumes it.

    Refuse: this worker takes no more items of the batch, because it lacks something that each of them needs.
    """
    wait: float | None = None
    """The wait that the endpoint requests; None = it requests none [s]."""
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
        return JobRequeued(also="close the gate", wait=outcome.retry_after, reason=reason)
    if kind == "credentials":
        return JobRequeued(also="stop the worker", reason=reason)
    if kind == "model_missing":
        return JobRequeued(also="pause the batch", reason=reason)
    if kind == "server_error" and attempts < MAX_SERVER_ERRORS - 1:
        return JobRequeued(_SERVER_ERROR_DELAY * 2**attempts, counts=True, reason=reason)
    return JobFinished()


def unbegun(error: errors.RunSpecialistError) -> Verdict:
    """Return the verdict on the job of an item whose run could not begin."""
    match error:
        case errors.AtWork():
            return JobRequeued(AT_WORK_DELAY, waits=False)
        case errors.StoreUnusable():
            return JobRequeued(STORE_DELAY)
        case LimitReached():
            return JobFinished(state=None)
        case NotAffordable():
            return JobRequeued(SHARE_DELAY)
        case PriceUnknown():
            return JobRequeued(also="pause the batch", reason=str(error))
        case errors.NoCredentials() | errors.NotTrusted() | errors.NothingToRead():
            return JobRequeued(also="refuse the batch", reason=str(error))
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
        self.is_cancelled = False
        """Whether the batch was cancelled."""
        self._batch, self._queue, self._slots, self._log = batch, queue, slots, log
        self._run: Run | EndedRun | None = None
        # Whether the run ends immediately (False), or after its turn (True); None = it goes on.
        self._aborts: bool | None = None

    def abort(self, *, after_turn: bool) -> None:
        """End the run, so that the job can be handed back.

        after_turn: first complete and store the current reply and the results of its calls.
        """
        self._aborts = after_turn
        if self._run is not None:
            self._run.abort(after_turn=after_turn)

    async def verdict(self) -> Verdict:
        """Work on the job until its verdict is known.

        Raises QueueAway or StoreUnusable if the database does not answer before the run has begun.
        """
        job = self.job
        if not job.run_id:
            again = "repeat the command that put it into the queue"
            return JobFinished(error=f"job {job.job_id} names no item of batch {job.batch_id}; {again}")
        try:
            begun = await self._queue.begin(job)
        except errors.StoreUnusable:
            raise
        except errors.UsageError as error:
            return JobFinished(error=str(error))
        _log.debug("%s: %s", job.run_id, begun)
        if begun is None:
            return JobFinished(state=None)
        if begun.taken_over and not begun.has_ended and await self._is_dead(begun):
            return JobFinished("dead", DEAD.format(begun.takeovers))
        frozen = self._batch.frozen

        async def lend(own: float | None) -> float | None:
            """Return the item's share of the batch's cost limit, reserved before its run begins."""
            slots = {"worker_slots": self._slots, "batch_slots": frozen.at_once}
            return await self._queue.share(job, own, typical=frozen.typical_cost, **slots)

        lending = lend if begun.has_cost_limit else None
        try:
            run = await self._batch.take_up(job.run_id, begun.question, job.retry, lending)
            if run.ended is not None and isinstance(judge(run.ended, job.attempts), JobRequeued):
                # A run that failed because of the endpoint is resumed.
                run = await self._batch.take_up(job.run_id, begun.question, [*job.retry, run.ended.status], lending)
        except errors.RunSpecialistError as error:
            _log.debug("%s: %s", job.run_id, error)
            if isinstance(error, errors.AtWork) and begun.taken_over:
                await self._queue.uncount(job)
            return unbegun(error)
        self._run = run
        if begun.taken_over and run.ended is not None:
            # It ended in between, so no worker has abandoned it.
            await self._queue.uncount(job)
        if self._aborts is not None:
            run.abort(after_turn=self._aborts)
        run.listen(self._hear)
        self.outcome = await run.outcome()
        return judge(self.outcome, job.attempts, cancelled=self.is_cancelled)

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
        url, owner = self._queue.url, begun.owner
        was_held = owner is not None and await asyncio.to_thread(challenge, url, owner)
        if begun.takeovers < MAX_TAKEOVERS:
            return False
        if owner is None:
            return True
        if was_held:
            # A live worker reconnects in this time, and its item is not dead.
            await asyncio.sleep(owners.GRACE)
        return not await asyncio.to_thread(owners.is_alive, url, owner)


# Interval at which an idle worker looks for jobs [s].
_POLL = 1.0
# Time in which a stopping worker tries to hand its jobs back; after that they are taken over [s].
_FAREWELL = 10.0
_MAX_DEFECTS = 3


class Worker:
    """Takes jobs from the queue until it is asked to stop."""

    def __init__(  # noqa: PLR0913 - keyword arguments, all optional
        self,
        url: str,
        roots: Mapping[str, Root],
        log: Log,
        *,
        at_once: int,
        trust: bool = False,
        health: HealthFile | None = None,
    ) -> None:
        """Configure a worker.

        url: a PostgreSQL store, with a queue.
        roots: folders of this host by the names that batches have for them.
        log: called with lines for the operator.
        at_once: number of items that it runs concurrently.
        trust: allow the specialists to start the commands and import the functions that they declare.
        health: a file for the state of the worker; None = none.
        """
        self.queue = Queue(url)
        self.exit_code = Exit.OK
        self._url, self._log, self._at_once, self._health = url, log, at_once, health
        self._stopping = asyncio.Event()
        self._changed = asyncio.Event()
        self._under_way: dict[asyncio.Task[None], JobWork] = {}
        self._batches = KnownBatches(self.queue, roots, log, trust=trust)
        # Batches whose gate was closed at the last look.
        self._paused: set[str] = set()
        self._is_away = False
        self._heart = Heartbeat(
            url, self.queue.worker, lambda: [work.job.job_id for work in [*self._under_way.values()]]
        )
        self._upkeep = Upkeep(self.queue, lambda: len(self._under_way), lambda: self._refusals)
        # Items that this worker has ended, by status.
        self._ended: Counter[str] = Counter()
        # Requests that an endpoint has refused.
        self._refusals = 0
        self._newest_problem = ""

    def stop(self, *, after_turn: bool = True) -> None:
        """Take no more jobs, end the runs and hand their jobs back.

        after_turn: end them after the current reply; False: immediately.
        """
        self._stopping.set()
        self._changed.set()
        for work in self._under_way.values():
            work.abort(after_turn=after_turn)

    async def work(self) -> Exit:
        """Work until `stop`; return the exit code.

        Raises StoreUnusable if the database has no queue.
        """
        # A takeover blocks a thread for two seconds.
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(self._at_once + 4))
        try:
            while not self._stopping.is_set():
                try:
                    await self.queue.check_access()
                    await self.queue.waiting()
                    break
                except QueueAway as away:
                    await self._wait_for_database(away)
            self._heart.start()
            self._upkeep.start()
            while not self._stopping.is_set():
                self._heart.respond()
                self._show_health("waiting for the database" if self._is_away else "working")
                self._changed.clear()
                try:
                    may_be_more = await self._take_some()
                except errors.StoreUnusable as error:
                    # Its tables have changed, or a privilege was revoked: no item can be finished.
                    self._report(f"this worker stops: {error}", "error")
                    self.exit_code = Exit.USAGE
                    self.stop()
                    break
                if not may_be_more:
                    with suppress(TimeoutError):
                        await asyncio.wait_for(self._changed.wait(), _POLL)
            while self._under_way:
                self._heart.respond()
                self._show_health("stopping")
                await asyncio.wait([*self._under_way], timeout=_POLL)
        finally:
            self._heart.stop()
            await self._upkeep.stop()
            for task in self._under_way:
                task.cancel()
            await self._batches.forget_all_but()
            await self.queue.close()
            self._show_health("stopped")
        return self.exit_code

    async def _take_some(self) -> bool:
        """Take jobs if there is room; return whether more may be available immediately."""
        taken: list[FleetJob] = []
        try:
            waiting = await self.queue.waiting()
            if self._is_away:
                self._is_away = False
                self._log("the database is available again")
                # No jobs are taken for a moment, because those of workers that reconnect look abandoned.
                await self._pause(Heartbeat.INTERVAL + _POLL)
                return True
            limits = await self._open_batches(waiting, taken)
            for priority in sorted({waiting[one].priority for one in limits}, reverse=True):
                # Equal batches share the fleet equally, whichever was put into the queue first.
                group = {one: limit for one, limit in limits.items() if waiting[one].priority == priority}
                shares = fair_shares({one: waiting[one].held for one in group}, self._room(taken))
                for batch_id, count in shares.items():
                    taken += await self.queue.take({batch_id: group[batch_id]}, count)
                if (room := self._room(taken)) and len(group) > 1:
                    taken += await self.queue.take(group, room)
        except QueueAway as away:
            # The heartbeats of this worker keep the jobs that it has taken before.
            self._begin(taken)
            await self._wait_for_database(away)
            return True
        self._begin(taken)
        await self._batches.forget_all_but({*waiting} | {work.job.batch_id for work in self._under_way.values()})
        return bool(taken) and len(self._under_way) < self._at_once

    async def _open_batches(self, waiting: Mapping[str, WaitingBatch], taken: list[FleetJob]) -> dict[str, int]:
        """Return the batches that this worker can take jobs of, with the limit of the fleet.

        taken: jobs that probe are added.
        """
        limits: dict[str, int] = {}
        for work in self._under_way.values():
            batch_id = work.job.batch_id
            if batch_id in waiting and waiting[batch_id].state == "cancelled" and not work.is_cancelled:
                work.is_cancelled = True
                work.abort(after_turn=True)
        for batch_id, one in waiting.items():
            batch = await self._batches.usable(batch_id) if one.state == "open" and self._room(taken) else None
            if batch is None:
                continue
            if one.closed is None:
                self._paused.discard(batch_id)
                limits[batch_id] = batch.frozen.at_once
            elif one.closed <= 0 and await self.queue.may_probe(batch_id):
                self._paused.add(batch_id)
                taken += await self.queue.take({batch_id: batch.frozen.at_once}, 1)
        return limits

    def _room(self, taken: Sequence[object]) -> int:
        """Return the number of places that are free beside the jobs that were just taken."""
        return self._at_once - len(self._under_way) - len(taken)

    def _begin(self, taken: Sequence[FleetJob]) -> None:
        """Begin jobs."""

        def done(task: asyncio.Task[None]) -> None:
            del self._under_way[task]
            self._changed.set()

        for job in taken:
            if any(work.job.job_id == job.job_id for work in self._under_way.values()):
                # Its heartbeats were late, so this worker has taken it from itself.
                continue
            work = JobWork(job, self._batches.opened[job.batch_id], self.queue, self._at_once, self._hear)
            if self._stopping.is_set():
                work.abort(after_turn=True)
            task = asyncio.create_task(self._do(work))
            self._under_way[task] = work
            task.add_done_callback(done)

    async def _do(self, work: JobWork) -> None:
        job = work.job
        try:
            verdict = await work.verdict()
        except (QueueAway, errors.StoreUnusable):
            verdict = JobRequeued(STORE_DELAY)
        except Exception as error:  # noqa: BLE001 - a defect in one item must not end the worker
            line = f"internal error: {error!r}; please report it"
            self._report(line, "error", job.run_id)
            last = job.attempts >= _MAX_DEFECTS - 1
            verdict = JobFinished(error=line) if last else JobRequeued(SILENCE, counts=True)
        else:
            self._report_end(work, verdict)
        _log.debug("%s: %s", job.run_id, verdict)
        await self._obey(job, verdict)

    def _report_end(self, work: JobWork, verdict: Verdict) -> None:
        run_id, outcome = work.job.run_id, work.outcome
        if isinstance(verdict, JobRequeued):
            if verdict.reason and verdict.also in {None, "close the gate"}:
                self._report(f"goes back to the queue: {verdict.reason}", "warning", run_id)
        elif outcome is not None or verdict.error is not None:
            # Otherwise it had ended before, or was cancelled.
            status = "failed" if outcome is None else outcome.status
            self._ended[status] += 1
            if error := verdict.error or (outcome and outcome.error):
                self._report(f"{status}: {error}", "warning", run_id or None)
            elif outcome is not None:
                cost = "" if outcome.cost_usd is None else f", {dollars(outcome.cost_usd)}"
                self._log(f"{status} after {outcome.duration_s:.1f} s{cost}", item=run_id)

    async def _obey(self, job: FleetJob, verdict: Verdict) -> None:
        """Carry out a verdict, however long the database is unavailable; a stopping worker waits only briefly."""
        since_stop = 0.0
        while since_stop < _FAREWELL:
            try:
                await self._record(job, verdict)
            except (QueueAway, errors.StoreUnusable):
                since_stop += _POLL if self._stopping.is_set() else 0.0
                await asyncio.sleep(_POLL)
            else:
                return

    async def _record(self, job: FleetJob, verdict: Verdict) -> None:
        if isinstance(verdict, JobFinished):
            await self.queue.finish(job, verdict.state, verdict.error)
            if job.batch_id in self._paused:
                await self.queue.open_gate(job.batch_id)
            return
        match verdict.also:
            case "pause the batch":
                again = f"`specialists fleet resume {job.batch_id}`"
                self._report(f"batch {job.batch_id} is paused: {verdict.reason}; {again}", "error")
                await asyncio.to_thread(set_state, self._url, job.batch_id, "paused", verdict.reason)
            case "stop the worker" if not self._stopping.is_set():
                self._report(f"this worker stops: {verdict.reason}", "error")
                self.exit_code = Exit.PROVIDER
                self.stop()
            case "refuse the batch":
                self._batches.refuse(job.batch_id, cannot_run(job.batch_id, errors.UsageError(verdict.reason)))
            case "close the gate":
                await self.queue.close_gate(job.batch_id, verdict.wait, verdict.reason)
        await self.queue.hand_back(job, verdict.delay, waits=verdict.waits, counts=verdict.counts)

    def _hear(self, text: str, *, level: Level = "info", item: str | None = None) -> None:
        """Log a line about a run in progress."""
        self._refusals += 1
        self._report(text, level, item)

    def _report(self, text: str, level: Level, item: str | None = None) -> None:
        self._newest_problem = text
        self._log(text, level=level, item=item)

    def _show_health(self, state: str) -> None:
        values = {
            "worker": str(self.queue.worker),
            "at_work": len(self._under_way),
            "ended": dict(self._ended),
            "endpoint_refusals": self._refusals,
            "refused_batches": dict(self._batches.refused),
            "newest_problem": self._newest_problem or None,
            "exit_code": int(self.exit_code) if self._stopping.is_set() else None,
        }
        if self._health is not None and (problem := self._health.write(state, values)):
            # Without the file a supervisor ends this worker, and its log must say why.
            self._log(problem, level="error")

    async def _wait_for_database(self, away: QueueAway) -> None:
        if not self._is_away:
            self._is_away = True
            self._report(f"the database is unavailable, waiting: {away}", "warning")
            self._show_health("waiting for the database")
        await self._pause(_POLL)

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), seconds)


def fair_shares(held: Mapping[str, int], room: int) -> dict[str, int]:
    """Divide free places among batches so that the fleet works on equally many items of each.

    held: how many items of each batch the fleet works on; the first of equals gets a place first.
    room: number of free places of this worker.
    """
    shares: Counter[str] = Counter()
    for _ in range(room if held else 0):
        shares[min(held, key=lambda one: held[one] + shares[one])] += 1
    return dict(shares)


COUNT = 10.0
"""Interval at which batches are counted for metrics [s]."""
PRUNE = 600.0
"""Interval at which old entries of the log are deleted [s]."""


FINAL = 900.0
"""How long the final counts of a batch are reported after its last job [s]."""
PREFIX = "run_specialist.fleet"
Figures = Callable[[], Iterable[tuple[float, dict[str, str]]]]
"""Returns the values of a gauge with their attributes."""


class Upkeep:
    """Runs beside the work of a worker, from `start` to `stop`: prunes the log of the queue, and reports metrics.

    The metrics are gauges of OpenTelemetry, if the program or its environment has set up a meter provider. Their
    callbacks run in a thread of the exporter, so they only read the newest counts.
    """

    def __init__(self, queue: Queue, at_work: Callable[[], int], refused: Callable[[], int]) -> None:
        """Prepare the work.

        at_work: returns how many items the worker works on; called in any thread.
        refused: returns how many of its requests an endpoint has refused; as above.
        """
        self._queue = queue
        self._task: asyncio.Task[None] | None = None
        self._batches: Sequence[BatchStatus] = ()
        # When each batch had jobs last, by its id [s].
        self._seen: dict[str, float] = {}
        self._meter = meter = find_meter()
        if meter is None:
            return

        def each(field: str) -> Figures:
            return lambda: [(value, _of(one)) for one in self._batches if (value := getattr(one, field)) is not None]

        def items() -> Iterable[tuple[float, dict[str, str]]]:
            for one in self._batches:
                for state, count in one.items.items():
                    yield count, {**_of(one), f"{PREFIX}.state": state}

        gauges: tuple[tuple[str, str, str, Figures], ...] = (
            ("items", "{item}", "Items of a batch by state", items),
            ("items.at_work", "{item}", "Items that this worker works on", lambda: [(at_work(), {})]),
            ("requests.refused", "{request}", "Requests of this worker that an API refused", lambda: [(refused(), {})]),
            ("requests.waiting", "{request}", "Requests of this worker that wait", lambda: [(GATES.waiting, {})]),
            ("heartbeat.age", "s", "Age of the oldest heartbeat of a batch", each("silent")),
            ("cost", "{USD}", "Known cost of the runs of a batch", each("cost_usd")),
            ("cost.limit", "{USD}", "Cost limit of a batch", each("cost_limit")),
        )
        for name, unit, description, figures in gauges:
            meter.create_observable_gauge(f"{PREFIX}.{name}", [partial(_observed, figures)], unit, description)

    def start(self) -> None:
        """Start, in a separate task."""
        self._task = asyncio.create_task(self._work())

    async def stop(self) -> None:
        """End, after a last count, so that a provider that exports at its shutdown reports the final state."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        with suppress(QueueAway, errors.StoreUnusable):
            await self._count()

    async def _count(self) -> None:
        if self._meter is None:
            return
        now, found = time.monotonic(), await statuses(self._queue, self._seen)
        self._seen |= {one.batch_id: now for one in found if one.queued or one.at_work}
        self._seen = {name: at for name, at in self._seen.items() if now - at <= FINAL}
        self._batches = [one for one in found if one.batch_id in self._seen]

    async def _work(self) -> None:
        pruned = -PRUNE
        while True:
            now = asyncio.get_running_loop().time()
            try:
                if now - pruned >= PRUNE:
                    pruned = now
                    await self._queue.prune_log()
                await self._count()
            except (QueueAway, errors.StoreUnusable) as error:
                # The worker says so when it looks for jobs itself.
                _log.debug("upkeep was postponed: %s", error)
            await asyncio.sleep(PRUNE if self._meter is None else COUNT)


def _of(one: BatchStatus) -> dict[str, str]:
    return {f"{PREFIX}.batch": one.batch_id, "gen_ai.agent.name": one.specialist}


def _observed(figures: Figures, _: "CallbackOptions") -> "list[Observation]":
    from opentelemetry.metrics import Observation  # noqa: PLC0415 - the meter has already imported it

    return [Observation(value, attributes) for value, attributes in figures()]


def find_meter() -> "Meter | None":
    """Return the meter; None unless the program or the environment has set up a meter provider."""
    if "opentelemetry.metrics" not in sys.modules and not os.environ.get("OTEL_PYTHON_METER_PROVIDER"):
        return None
    from run_specialist.version import release  # noqa: PLC0415 - only needed for metrics

    # A provider is foreign code.
    with suppress(Exception):
        from opentelemetry import metrics  # noqa: PLC0415 - only workers need it

        provider = metrics.get_meter_provider()
        # The provider that waits for another one to be set up has no public name.
        if not type(provider).__module__.startswith("opentelemetry.metrics"):
            return provider.get_meter(SCOPE, release())
    return None

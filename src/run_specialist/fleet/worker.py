"""A worker of the fleet: takes jobs, sends heartbeats, repairs the queue and reports metrics."""

import asyncio
import logging
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from uuid import UUID

import psycopg
from psycopg import RawCursor
from psycopg.errors import InsufficientPrivilege

from run_specialist.budget import dollars
from run_specialist.errors import StoreUnusable, UsageError
from run_specialist.fleet.batches import BatchStatus, KnownBatches, Root, cannot_run, set_state, statuses
from run_specialist.fleet.job import STORE_DELAY, JobFinished, JobRequeued, JobWork, Verdict
from run_specialist.fleet.queue import (
    BEAT,
    PROBE_TIME,
    SILENCE,
    BadJob,
    FleetJob,
    Queue,
    QueueAway,
    WaitingBatch,
    parameters,
)
from run_specialist.fleet.worker_log import HealthFile, Level, Log
from run_specialist.loop.observing import SCOPE
from run_specialist.providers.admission import GATES
from run_specialist.record.outcome import Exit

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, Meter, Observation


AT_ONCE = 8
"""Default number of items that a worker runs concurrently."""
POLL = 1.0
"""Interval at which an idle worker looks for jobs [s]."""
FAREWELL = 10.0
"""Time in which a stopping worker tries to hand its jobs back; after that they are taken over [s]."""
_MAX_DEFECTS = 3

_log = logging.getLogger(__name__)


class Worker:
    """Takes jobs from the queue until it is asked to stop."""

    def __init__(  # noqa: PLR0913 - keyword arguments, all optional
        self,
        url: str,
        roots: Mapping[str, Root],
        log: Log,
        *,
        at_once: int = AT_ONCE,
        trust: bool = False,
        health: HealthFile | None = None,
    ) -> None:
        """Configure a worker.

        url: a PostgreSQL store, with a queue.
        roots: folders of this host by the names that batches have for them.
        log: called with lines for the operator.
        trust: allow the specialists to start the commands and import the functions that they declare.
        health: a file for the state of the worker; None = none.
        """
        self.queue = Queue(url)
        self.exit_code = Exit.OK
        self._url, self._log, self._at_once = url, log, at_once
        self._stopping = asyncio.Event()
        self._changed = asyncio.Event()
        self._under_way: dict[asyncio.Task[None], JobWork] = {}
        self._batches = KnownBatches(self.queue, url, roots, log, trust=trust)
        self._paused: set[str] = set()
        """Batches whose gate was closed at the last look."""
        self._is_away = False
        self._heart = Heartbeat(url, self.queue.worker, self._held)
        self._upkeep = Upkeep(self.queue, lambda: len(self._under_way), lambda: self._refusals)
        self._health = health
        self._ended: Counter[str] = Counter()
        """Items that this worker has ended, by status."""
        self._refusals = 0
        """Requests that an endpoint has refused."""
        self._newest_problem = ""

    def _held(self) -> list[int]:
        return [work.job.job_id for work in list(self._under_way.values())]

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
            await self._first_look()
        except BaseException:
            await self.queue.close()
            raise
        self._heart.start()
        self._upkeep.start()
        try:
            while not self._stopping.is_set():
                self._heart.respond()
                self._show_health("waiting for the database" if self._is_away else "working")
                self._changed.clear()
                try:
                    may_be_more = await self._take_some()
                except StoreUnusable as error:
                    # Its tables have changed, or a privilege was revoked: no item can be finished.
                    self._report(f"this worker stops: {error}", "error")
                    self.exit_code = Exit.USAGE
                    self.stop()
                    break
                if not may_be_more:
                    with suppress(TimeoutError):
                        await asyncio.wait_for(self._changed.wait(), POLL)
            while self._under_way:
                self._heart.respond()
                self._show_health("stopping")
                await asyncio.wait([*self._under_way], timeout=POLL)
        finally:
            self._heart.stop()
            await self._upkeep.stop()
            for task in self._under_way:
                task.cancel()
            await self._batches.aclose()
            await self.queue.close()
            self._show_health("stopped")
        return self.exit_code

    async def _first_look(self) -> None:
        while not self._stopping.is_set():
            try:
                try:
                    await self.queue.waiting()
                except StoreUnusable as error:
                    if isinstance(error.__cause__, InsufficientPrivilege):
                        await self.queue.check_access()
                    raise
                await self.queue.check_access()
            except QueueAway as away:
                await self._wait_for_database(away)
            else:
                return

    async def _take_some(self) -> bool:
        """Take jobs if there is room; return whether more may be available immediately."""
        taken: list[FleetJob | BadJob] = []
        try:
            waiting = await self.queue.waiting()
            if self._is_away:
                self._is_away = False
                self._log("the database is available again")
                # No jobs are taken for a moment, because those of workers that reconnect look abandoned.
                await self._pause(INTERVAL + POLL)
                return True
            limits = await self._open_batches(waiting, taken)
            for priority in sorted({waiting[one].priority for one in limits}, reverse=True):
                # Equal batches share the fleet equally, whichever was put into the queue first.
                group = {one: limit for one, limit in limits.items() if waiting[one].priority == priority}
                for batch_id, count in fair_shares(
                    {one: waiting[one].held for one in group}, self._room(taken)
                ).items():
                    taken += await self.queue.take({batch_id: group[batch_id]}, count)
                if (room := self._room(taken)) and len(group) > 1:
                    taken += await self.queue.take(group, room)
            for bad in (one for one in taken if isinstance(one, BadJob)):
                again = "repeat the command that put it into the queue"
                self._report(f"refused: job {bad.job_id} of batch {bad.batch_id}: {bad.reason}; {again}", "error")
                await self.queue.drop(bad.job_id)
        except QueueAway as away:
            # The heartbeats of this worker keep the jobs that it has taken before.
            self._begin(taken)
            await self._wait_for_database(away)
            return True
        begun = self._begin(taken)
        await self._batches.forget_all_but({*waiting} | {work.job.batch_id for work in self._under_way.values()})
        return begun > 0 and len(self._under_way) < self._at_once

    async def _open_batches(
        self, waiting: Mapping[str, WaitingBatch], taken: list[FleetJob | BadJob]
    ) -> dict[str, int]:
        """Return the batches that this worker can take jobs of, with the limit of the fleet.

        taken: jobs that probe are added.
        """
        limits: dict[str, int] = {}
        for batch_id, one in waiting.items():
            if one.state == "cancelled":
                for work in self._under_way.values():
                    if work.job.batch_id == batch_id and not work.is_cancelled:
                        work.is_cancelled = True
                        work.abort(after_turn=True)
            batch = await self._batches.usable(batch_id) if one.state == "open" and self._room(taken) else None
            if batch is None:
                continue
            if one.closed is None:
                self._paused.discard(batch_id)
                limits[batch_id] = batch.frozen.at_once
            elif one.closed <= 0 and await self.queue.may_probe(batch_id, PROBE_TIME):
                self._paused.add(batch_id)
                taken += await self.queue.take({batch_id: batch.frozen.at_once}, 1)
        return limits

    def _room(self, taken: Sequence[object]) -> int:
        """Return the number of places that are free beside the jobs that were just taken."""
        return self._at_once - len(self._under_way) - len(taken)

    def _begin(self, taken: Sequence[FleetJob | BadJob]) -> int:
        """Begin the jobs that name an item; return how many there are."""

        def done(task: asyncio.Task[None]) -> None:
            del self._under_way[task]
            self._changed.set()

        jobs = [one for one in taken if isinstance(one, FleetJob)]
        for job in jobs:
            if any(work.job.job_id == job.job_id for work in self._under_way.values()):
                # Its heartbeats were late, so this worker has taken it from itself.
                continue
            work = JobWork(job, self._batches[job.batch_id], self.queue, self._at_once, self._hear)
            if self._stopping.is_set():
                work.abort(after_turn=True)
            task = asyncio.create_task(self._do(work))
            self._under_way[task] = work
            task.add_done_callback(done)
        return len(jobs)

    async def _do(self, work: JobWork) -> None:
        job = work.job
        try:
            verdict = await work.verdict()
        except (QueueAway, StoreUnusable):
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
            if verdict.reason and not (verdict.stops or verdict.refuses):
                self._report(f"goes back to the queue: {verdict.reason}", "warning", run_id)
            return
        error = verdict.error or (None if outcome is None else outcome.error)
        status = "failed" if outcome is None else outcome.status
        if verdict.error is None and outcome is None:
            # It had ended before, or was cancelled.
            return
        self._ended[status] += 1
        if error is not None:
            self._report(f"{status}: {error}", "warning", run_id)
        elif outcome is not None:
            cost = "" if outcome.cost_usd is None else f", {dollars(outcome.cost_usd)}"
            self._log(f"{status} after {outcome.duration_s:.1f} s{cost}", item=run_id)

    async def _obey(self, job: FleetJob, verdict: Verdict) -> None:
        """Carry out a verdict, however long the database is unavailable; a stopping worker waits only briefly."""
        since_stop = 0.0
        while since_stop < FAREWELL:
            try:
                await self._record(job, verdict)
            except (QueueAway, StoreUnusable):
                since_stop += POLL if self._stopping.is_set() else 0.0
                await asyncio.sleep(POLL)
            else:
                return

    async def _record(self, job: FleetJob, verdict: Verdict) -> None:
        if isinstance(verdict, JobFinished):
            await self.queue.finish(job, verdict.state, verdict.error)
            if job.batch_id in self._paused:
                await self.queue.open_gate(job.batch_id)
            return
        if verdict.stops and verdict.pauses:
            again = f"`specialists fleet resume {job.batch_id}`"
            self._report(f"batch {job.batch_id} is paused: {verdict.stops}; {again}", "error")
            await asyncio.to_thread(set_state, self._url, job.batch_id, "paused", verdict.stops)
        elif verdict.stops and not self._stopping.is_set():
            self._report(f"this worker stops: {verdict.stops}", "error")
            self.exit_code = Exit.PROVIDER
            self.stop()
        if verdict.refuses:
            self._batches.refuse(job.batch_id, cannot_run(job.batch_id, UsageError(verdict.reason)))
        if verdict.closes:
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
        if self._health is not None and (problem := self._health.write(state, self._health_values)):
            # Without the file a supervisor ends this worker, and its log must say why.
            self._log(problem, level="error")

    def _health_values(self) -> dict[str, Any]:
        return {
            "worker": str(self.queue.worker),
            "at_work": len(self._under_way),
            "ended": dict(self._ended),
            "endpoint_refusals": self._refusals,
            "refused_batches": dict(self._batches.refused),
            "newest_problem": self._newest_problem or None,
            "exit_code": int(self.exit_code) if self._stopping.is_set() else None,
        }

    async def _wait_for_database(self, away: QueueAway) -> None:
        if not self._is_away:
            self._is_away = True
            self._report(f"the database is unavailable, waiting: {away}", "warning")
            self._show_health("waiting for the database")
        await self._pause(POLL)

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


INTERVAL = 2.0
"""Interval of the heartbeats, of which three may be missing [s]."""
LOOP_PATIENCE = 60.0
"""Time without a sign of the event loop after which the worker counts as dead [s]."""


class Heartbeat:
    """Reports to the queue that the worker is alive, until it is stopped; a frozen process reports nothing."""

    def __init__(self, url: str, worker: UUID, held: Callable[[], Collection[int]]) -> None:
        """Prepare the thread.

        worker: the name of the worker in the queue.
        held: returns the ids of the jobs that it works on; called in the thread.
        """
        self._url, self._worker, self._held = url, worker, held
        self._stopped = threading.Event()
        self._responded = time.monotonic()
        self._connection: psycopg.Connection[Any] | None = None
        self._thread = threading.Thread(target=self._beat, name="run-specialist heart", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def respond(self) -> None:
        """Show that the event loop is alive; call it regularly from the event loop."""
        self._responded = time.monotonic()

    def stop(self) -> None:
        """Stop the thread, without waiting for a heartbeat in progress."""
        self._stopped.set()

    def _beat(self) -> None:
        while not self._stopped.wait(INTERVAL):
            if time.monotonic() - self._responded < LOOP_PATIENCE and (held := [*self._held()]):
                try:
                    if self._connection is None:
                        self._connection = psycopg.connect(**parameters(self._url), autocommit=True)
                    RawCursor(self._connection).execute(BEAT, (held, self._worker))
                except Exception:  # noqa: BLE001 - a database that is away is the concern of the event loop
                    # The next heartbeat connects again.
                    self._drop()
        self._drop()

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(Exception):
                connection.close()


COUNT = 10.0
"""Interval at which batches are counted for metrics [s]."""
PRUNE = 600.0
"""Interval at which old entries of the log are deleted [s]."""


class Upkeep:
    """Runs beside the work of a worker, from `start` to `stop`."""

    def __init__(self, queue: Queue, at_work: Callable[[], int], refused: Callable[[], int] = lambda: 0) -> None:
        """Prepare the work.

        at_work: returns how many items the worker works on.
        refused: returns how many of its requests an endpoint has refused.
        """
        self._queue = queue
        meter = find_meter()
        self._metrics = None if meter is None else FleetMetrics(meter, at_work, refused)
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start, in a separate task."""
        self._task = asyncio.create_task(self._work())

    async def stop(self) -> None:
        """End, after a last count, so that a provider that exports at its shutdown reports the final state."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        with suppress(QueueAway, StoreUnusable):
            await self._count()

    async def _count(self) -> None:
        if self._metrics is None:
            return
        batches = await statuses(self._queue)
        ended = [one for name in self._metrics.gone(batches) for one in await statuses(self._queue, name)]
        self._metrics.update(batches, ended)

    async def _work(self) -> None:
        pruned = -PRUNE
        while True:
            now = asyncio.get_running_loop().time()
            try:
                if now - pruned >= PRUNE:
                    pruned = now
                    await self._queue.prune_log()
                await self._count()
            except (QueueAway, StoreUnusable) as error:
                # The worker says so when it looks for jobs itself.
                _log.debug("upkeep was postponed: %s", error)
            await asyncio.sleep(COUNT if self._metrics is not None else PRUNE)


# Report counts of a fleet as OpenTelemetry metrics, if the program or its environment has set up a meter provider.
#
# A callback of a metric runs in a thread of the exporter, so it only reads the worker's newest counts.

PREFIX = "run_specialist.fleet"
FINAL = 900.0
"""How long the final counts of a batch are reported after its last job [s]."""
Figure = tuple[float, dict[str, str]]
"""A value and its attributes."""


def find_meter() -> "Meter | None":
    """Return the meter; None unless the program or the environment has set up a meter provider."""
    if "opentelemetry.metrics" not in sys.modules and not os.environ.get("OTEL_PYTHON_METER_PROVIDER"):
        return None
    try:
        from opentelemetry import metrics  # noqa: PLC0415 - only where it is used

        provider = metrics.get_meter_provider()
        # The provider that waits for another one to be set up has no public name.
        if type(provider).__module__.startswith("opentelemetry.metrics"):
            return None
        from run_specialist.version import release  # noqa: PLC0415 - only needed for metrics

        return provider.get_meter(SCOPE, release())
    except Exception:  # noqa: BLE001 - a provider is foreign code
        _log.debug("there is no meter", exc_info=True)
        return None


class FleetMetrics:
    """The metrics of one worker; nothing is counted before the first `update`."""

    def __init__(self, meter: "Meter", at_work: Callable[[], int], refused: Callable[[], int]) -> None:
        """Create the instruments.

        at_work: returns how many items this worker works on; called in any thread.
        refused: returns how many of its requests were refused so far; as above.
        """
        self._batches: Sequence[BatchStatus] = ()
        self._final: dict[str, tuple[float, BatchStatus]] = {}

        def observe(name: str, unit: str, description: str, figures: Callable[[], Iterable[Figure]]) -> None:
            def observations(_: "CallbackOptions") -> "list[Observation]":
                from opentelemetry.metrics import Observation  # noqa: PLC0415 - the meter has already imported it

                return [Observation(value, attributes) for value, attributes in figures()]

            meter.create_observable_gauge(f"{PREFIX}.{name}", [observations], unit, description)

        def of_batches(value: Callable[[BatchStatus], float | None]) -> Callable[[], Iterable[Figure]]:
            return lambda: ((found, _of(one)) for one in self._batches if (found := value(one)) is not None)

        def items() -> Iterator[Figure]:
            for one in self._batches:
                for state, count in one.items.items():
                    yield count, {**_of(one), f"{PREFIX}.state": state}

        observe("items", "{item}", "Items of a batch by state", items)
        observe("items.at_work", "{item}", "Items that this worker works on", lambda: [(at_work(), {})])
        observe(
            "requests.refused", "{request}", "Requests of this worker that an API refused", lambda: [(refused(), {})]
        )
        observe(
            "requests.waiting",
            "{request}",
            "Requests of this worker that wait for the API",
            lambda: [(GATES.waiting, {})],
        )
        observe("heartbeat.age", "s", "Age of the oldest heartbeat of a batch", of_batches(lambda one: one.silent))
        observe("cost", "{USD}", "Known cost of the runs of a batch", of_batches(lambda one: one.cost_usd))
        observe("cost.limit", "{USD}", "Cost limit of a batch", of_batches(lambda one: one.cost_limit))

    def gone(self, batches: Sequence[BatchStatus]) -> list[str]:
        """Return the batches that had jobs at the last update and have none now.

        batches: those that have jobs.
        """
        return sorted({one.batch_id for one in self._batches} - {one.batch_id for one in batches} - {*self._final})

    def update(self, batches: Sequence[BatchStatus], ended: Sequence[BatchStatus] = ()) -> None:
        """Set the batches that have jobs, and add batches that have ended, whose final counts are kept for a while.

        ended: the current state of the batches that `gone` returned.
        """
        now = time.monotonic()
        final = {one.batch_id: (now, one) for one in ended}
        at_work = {one.batch_id for one in batches}
        self._final = {
            name: (since, one)
            for name, (since, one) in {**self._final, **final}.items()
            if now - since < FINAL and name not in at_work
        }
        self._batches = (*batches, *(one for _, one in self._final.values()))


def _of(one: BatchStatus) -> dict[str, Any]:
    return {f"{PREFIX}.batch": one.batch_id, "gen_ai.agent.name": one.specialist}

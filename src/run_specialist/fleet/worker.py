"""A worker of the fleet: takes jobs, keeps them alive, and hands back unfinished jobs."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from run_specialist.errors import StoreUnusable
from run_specialist.fleet.control import set_state
from run_specialist.fleet.heart import INTERVAL, Heartbeat
from run_specialist.fleet.job_verdict import STORE_DELAY, JobFinished, JobRequeued, Verdict
from run_specialist.fleet.job_work import JobWork
from run_specialist.fleet.known_batches import KnownBatches
from run_specialist.fleet.queue import PROBE_TIME, SILENCE, FleetJob, Queue
from run_specialist.fleet.queue_connection import QueueAway
from run_specialist.fleet.upkeep import Upkeep
from run_specialist.record.outcome import Exit

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

    def __init__(
        self,
        url: str,
        roots: Mapping[str, Path],
        say: Callable[[str], None],
        *,
        at_once: int = AT_ONCE,
        trust: bool = False,
    ) -> None:
        """Configure a worker.

        url: a PostgreSQL store, with a queue.
        roots: folders of this host by the names that batches have for them.
        say: called with lines for the operator.
        trust: allow the specialists to start the commands and import the functions that they declare.
        """
        self.queue = Queue(url)
        self.exit_code = Exit.OK
        self._url, self._say, self._at_once = url, say, at_once
        self._stopping = asyncio.Event()
        self._changed = asyncio.Event()
        self._under_way: dict[asyncio.Task[None], JobWork] = {}
        self._batches = KnownBatches(self.queue, url, roots, say, trust=trust)
        self._paused: set[str] = set()
        """Batches whose gate was closed at the last look."""
        self._is_away = False
        self._heart = Heartbeat(url, self.queue.worker, self._held)
        self._upkeep = Upkeep(self.queue, lambda: len(self._under_way))

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
        await self._first_look()
        self._heart.start()
        self._upkeep.start()
        try:
            while not self._stopping.is_set():
                self._heart.respond()
                self._changed.clear()
                if not await self._take_some():
                    with suppress(TimeoutError):
                        await asyncio.wait_for(self._changed.wait(), POLL)
            while self._under_way:
                self._heart.respond()
                await asyncio.wait([*self._under_way], timeout=POLL)
        finally:
            self._heart.stop()
            await self._upkeep.stop()
            for task in self._under_way:
                task.cancel()
            await self._batches.aclose()
            await self.queue.close()
        return self.exit_code

    async def _first_look(self) -> None:
        while not self._stopping.is_set():
            try:
                await self.queue.waiting()
            except QueueAway as away:
                await self._wait_for_database(away)
            else:
                return

    async def _take_some(self) -> bool:
        """Take jobs if there is room; return whether more may be available immediately."""
        room = self._at_once - len(self._under_way)
        try:
            waiting = await self.queue.waiting()
            if self._is_away:
                return await self._came_back()
            limits: dict[str, int] = {}
            jobs: list[FleetJob] = []
            for batch_id, (state, closed) in waiting.items():
                if state == "cancelled":
                    self._cancel(batch_id)
                batch = await self._batches.usable(batch_id) if state == "open" and room else None
                if batch is None:
                    continue
                if closed is None:
                    self._paused.discard(batch_id)
                    limits[batch_id] = batch.frozen.at_once
                elif closed <= 0 and len(jobs) < room and await self.queue.may_probe(batch_id, PROBE_TIME):
                    self._paused.add(batch_id)
                    jobs += await self.queue.take({batch_id: batch.frozen.at_once}, 1)
            if limits and (left := room - len(jobs)):
                jobs += await self.queue.take(limits, left)
        except QueueAway as away:
            await self._wait_for_database(away)
            return True
        for job in jobs:
            self._begin(job)
        await self._batches.forget_all_but({*waiting} | {work.job.batch_id for work in self._under_way.values()})
        return bool(jobs) and len(self._under_way) < self._at_once

    def _begin(self, job: FleetJob) -> None:
        if any(work.job.job_id == job.job_id for work in self._under_way.values()):
            # Its heartbeats were late, so this worker has taken it from itself.
            return
        work = JobWork(job, self._batches[job.batch_id], self.queue, self._at_once)
        if self._stopping.is_set():
            work.abort(after_turn=True)
        task = asyncio.create_task(self._do(work))
        self._under_way[task] = work
        task.add_done_callback(self._done)

    def _done(self, task: "asyncio.Task[None]") -> None:
        del self._under_way[task]
        self._changed.set()

    async def _do(self, work: JobWork) -> None:
        job = work.job
        try:
            verdict = await work.verdict()
        except (QueueAway, StoreUnusable):
            verdict = JobRequeued(STORE_DELAY)
        except Exception as error:  # noqa: BLE001 - a defect in one item must not end the worker
            line = f"internal error: {error!r}; please report it"
            self._say(f"{job.run_id}: {line}")
            last = job.attempts >= _MAX_DEFECTS - 1
            verdict = JobFinished(error=line) if last else JobRequeued(SILENCE, counts=True)
        else:
            if isinstance(verdict, JobFinished) and verdict.error is not None:
                self._say(f"{job.run_id} failed: {verdict.error}")
        _log.debug("%s: %s", job.run_id, verdict)
        await self._obey(job, verdict)

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
            self._say(f"batch {job.batch_id} is paused: {verdict.stops}; `specialists fleet resume {job.batch_id}`")
            await asyncio.to_thread(set_state, self._url, job.batch_id, "paused", verdict.stops)
        elif verdict.stops and not self._stopping.is_set():
            self._say(f"this worker stops: {verdict.stops}")
            self.exit_code = Exit.PROVIDER
            self.stop()
        if verdict.closes:
            await self.queue.close_gate(job.batch_id, verdict.wait, verdict.reason)
        await self.queue.hand_back(job, verdict.delay, waits=verdict.waits, counts=verdict.counts)

    def _cancel(self, batch_id: str) -> None:
        for work in self._under_way.values():
            if work.job.batch_id == batch_id and not work.is_cancelled:
                work.is_cancelled = True
                work.abort(after_turn=True)

    async def _wait_for_database(self, away: QueueAway) -> None:
        if not self._is_away:
            self._is_away = True
            self._say(f"the database is unavailable, waiting: {away}")
        await self._pause(POLL)

    async def _came_back(self) -> bool:
        """Take no jobs for a moment after a reconnection, because jobs of reconnecting workers look abandoned."""
        self._is_away = False
        self._say("the database is available again")
        await self._pause(INTERVAL + POLL)
        return True

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), seconds)

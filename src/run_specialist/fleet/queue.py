"""The queue of a fleet: put, take, keep, finish and hand back jobs, and the gate of each batch."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import uuid4

from pgqueuer.domain.types import QueueEntrypoint, QueueManagerId
from pgqueuer.ports.repository import EntrypointExecutionParameter

from run_specialist.fleet import queue_sql
from run_specialist.fleet.queue_connection import QueueConnection, queries
from run_specialist.store.packing import pack, unpack

SILENCE = 7.0
"""Time without a heartbeat after which another worker takes over a job [s]."""
PORTION = 5_000
"""Number of jobs per insert statement."""
LOG_DAYS = 7
"""Age at which entries of the log are deleted once their jobs have ended [days]."""
FIRST_PAUSE, LONGEST_PAUSE = 30.0, 600.0
"""First and longest pause of a batch whose endpoint refuses requests without naming a wait; each pause doubles [s]."""
PROBE_TIME = 60.0
"""Time after a pause in which only the first item uses the endpoint [s]."""
_SET_UP_LOCK = 0x52537132
"""Advisory lock held while tables are created."""


@dataclass(frozen=True, slots=True)
class FleetJob:
    """A job that this worker holds; it names an item, whose state is in the store."""

    job_id: int
    batch_id: str
    run_id: str
    number: int
    retry: tuple[str, ...] = ()
    """Statuses of ended runs that are resumed."""
    attempts: int = 0
    """Number of endpoint failures."""


@dataclass(frozen=True, slots=True)
class StartedItem:
    """An item whose run is about to begin."""

    taken_over: bool
    """Whether the previous holder died or froze, instead of handing the item back."""
    takeovers: int
    """Number of takeovers since the newest turn of its run."""
    question: str
    owner: str | None
    """Token of the process that wrote its run last; None = there is no run yet."""
    has_ended: bool = False
    """Whether its run has ended, so that taking it up costs nothing."""
    has_cost_limit: bool = False
    """Whether its batch has a cost limit, so that the item needs a share."""


class Queue:
    """One worker's access to the queue; its methods raise QueueAway and StoreUnusable as `QueueConnection.fetch`."""

    def __init__(self, url: str) -> None:
        """Connect on first use.

        url: a PostgreSQL store.
        """
        self.connection = QueueConnection(url)
        self._queries = queries(self.connection)
        self.worker = QueueManagerId(uuid4())
        """Names this worker in the jobs that it holds."""

    async def set_up(self) -> None:
        """Create or upgrade the tables; several processes may do so at the same time."""
        # A lock of the session, because PgQueuer's upgrade runs statements in separate transactions.
        await self.connection.execute("select pg_advisory_lock($1)", _SET_UP_LOCK)
        try:
            if await self._queries.schema_is_installed():
                await self._queries.apply_upgrade()
            else:
                await self._queries.install()
        finally:
            await self.connection.execute("select pg_advisory_unlock($1)", _SET_UP_LOCK)

    async def put(self, batch_id: str, items: Sequence[tuple[int, str]], retry: Sequence[str] = ()) -> int:
        """Put the items of a batch into the queue, in this order; return the number of new ones.

        items: number and run id.
        retry: statuses of ended runs that are resumed.
        """
        added = 0
        for start in range(0, len(items), PORTION):
            portion = items[start : start + PORTION]
            payloads = [
                json.dumps({"run_id": run_id, "batch": batch_id, "number": number, "retry": list(retry)}).encode()
                for number, run_id in portion
            ]
            count = len(payloads)
            keys: list[str | None] = [run_id for _, run_id in portion]
            ids = await self._queries.enqueue(
                [batch_id] * count, [*payloads], [0] * count, dedupe_key=keys, on_conflict="skip"
            )
            added += sum(one is not None for one in ids)
        return added

    async def waiting(self) -> dict[str, tuple[str, float | None]]:
        """Return the batches that have jobs: their state, and for how long their gate is closed [s], None = open."""
        found = await self.connection.fetch(queue_sql.WAITING)
        return {_text(row, "batch_id"): (_text(row, "state"), _number(row, "closed")) for row in found}

    async def frozen(self, batch_id: str) -> Mapping[str, Any]:
        """Return the frozen values of a batch."""
        (row,) = await self.connection.fetch(queue_sql.SELECT_BATCH, batch_id)
        content: Mapping[str, Any] = json.loads(_unpacked(row["frozen"]))
        return content

    async def take(self, limits: Mapping[str, int], most: int) -> list[FleetJob]:
        """Take jobs that no worker holds, or whose holder has been silent for `SILENCE`.

        limits: how many jobs of each batch the whole fleet may hold; 0 = any.
        """
        taken = await self._queries.dequeue(
            batch_size=most,
            entrypoints={
                QueueEntrypoint(batch): EntrypointExecutionParameter(concurrency_limit=limit)
                for batch, limit in limits.items()
            },
            queue_manager_id=self.worker,
            global_concurrency_limit=None,
            heartbeat_timeout=timedelta(seconds=SILENCE),
        )
        return [_job(one.id, one.attempts, one.payload or b"") for one in taken]

    async def keep(self, jobs: Collection[int]) -> set[int]:
        """Record that the worker is alive; return the jobs that it still holds."""
        found = await self.connection.fetch(queue_sql.BEAT, list(jobs), self.worker)
        return {int(str(row["id"])) for row in found}

    async def begin(self, job: FleetJob) -> StartedItem | None:
        """Begin the item of a job; None if it has already ended or was cancelled."""
        found = await self.connection.fetch(queue_sql.BEGIN, job.run_id, job.batch_id)
        if not found:
            return None
        row: dict[str, Any] = found[0]
        question, is_limited = _unpacked(row["question"]), row["cost_limit"] is not None
        return StartedItem(row["taken_over"], row["takeovers"], question, row["owner"], row["has_ended"], is_limited)

    async def uncount(self, job: FleetJob) -> None:
        """Do not count the takeover of an item, because its run is in progress or has ended elsewhere."""
        await self.connection.fetch(queue_sql.UNCOUNT, job.run_id, job.batch_id)

    async def finish(self, job: FleetJob, state: str | None, error: str | None = None) -> bool:
        """Remove a job and set the state of its item, unless another worker has taken it; return whether this was done.

        state: None to keep that of the item.
        """
        packed = None if error is None else pack(error)
        values = (job.job_id, self.worker, job.run_id, job.batch_id, state, packed)
        return bool(await self.connection.fetch(queue_sql.FINISH, *values))

    async def hand_back(self, job: FleetJob, delay: float, *, waits: bool = True, counts: bool = False) -> bool:
        """Queue a job again, unless another worker has taken it; return whether this was done.

        delay: time before it can be taken [s].
        waits: whether the item waits; False if its run is at work elsewhere.
        counts: whether this adds to the attempts of the job.
        """
        values = (job.job_id, self.worker, job.run_id, job.batch_id, timedelta(seconds=delay), waits, int(counts))
        return bool(await self.connection.fetch(queue_sql.HAND_BACK, *values))

    async def close_gate(self, batch_id: str, wait: float | None, reason: str) -> None:
        """Pause a batch in the whole fleet.

        wait: duration that the endpoint requested; None for pauses that double [s].
        """
        await self.connection.fetch(queue_sql.CLOSE, batch_id, wait, FIRST_PAUSE, reason, LONGEST_PAUSE)

    async def may_probe(self, batch_id: str, seconds: float) -> bool:
        """Return whether this worker may try one item of a batch after its pause; others continue to pause."""
        return bool(await self.connection.fetch(queue_sql.PROBE, batch_id, seconds))

    async def open_gate(self, batch_id: str) -> None:
        """Let the fleet take the items of a batch again."""
        await self.connection.fetch(queue_sql.OPEN, batch_id)

    async def cancel(self, batch_id: str) -> int:
        """Remove the jobs of a batch that no worker holds; return how many."""
        return len(await self.connection.fetch(queue_sql.CANCEL, batch_id))

    async def prune_log(self) -> int:
        """Delete entries of PgQueuer's log about jobs that ended more than `LOG_DAYS` ago; return how many."""
        values = (timedelta(days=LOG_DAYS), PORTION)
        return len(await self.connection.fetch(queue_sql.PRUNE, *values))

    async def counts(self) -> list[dict[str, object]]:
        """Return the jobs of each batch: batch_id, queued, picked, workers, silent [s]."""
        return await self.connection.fetch(queue_sql.COUNTS)

    async def close(self) -> None:
        """Close the connection."""
        await self.connection.close()


def _job(job_id: int, attempts: int, payload: bytes) -> FleetJob:
    content = json.loads(payload)
    retry = tuple(content.get("retry", ()))
    return FleetJob(job_id, content["batch"], content["run_id"], content["number"], retry, attempts)


def _unpacked(value: object) -> str:
    return unpack(bytes(value))  # type: ignore[call-overload]


def _text(row: Mapping[str, object], name: str) -> str:
    return str(row[name])


def _number(row: Mapping[str, object], name: str) -> float | None:
    return None if row[name] is None else float(str(row[name]))

"""The queue of a fleet: put, take, keep, finish and hand back jobs, and the gate of each batch."""

import json
import zlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import uuid4

from pgqueuer.domain.types import QueueEntrypoint, QueueManagerId
from pgqueuer.ports.repository import EntrypointExecutionParameter

from run_specialist.errors import StoreUnusable, UsageError
from run_specialist.fleet import queue_sql
from run_specialist.fleet.queue_connection import NOT_SET_UP, QUEUE_SCHEMA, QueueConnection, queries
from run_specialist.store.identity import NAMESPACE, VERSION
from run_specialist.store.location import newer_version_error, shown
from run_specialist.store.packing import pack, unpack
from run_specialist.store.postgresql import user_of

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
LARGEST = 64 * 1024**2
"""Maximum size of a frozen batch or a question [bytes]; a larger one is refused before it fills the memory."""
RETRIABLE = frozenset({"failed", "aborted", "partial"})
"""Statuses of ended runs that a job may resume."""
UNREADABLE = (zlib.error, ValueError, TypeError, LookupError, AttributeError, RecursionError, MemoryError)
"""Errors of a row whose bytes are not those that this program has written."""
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
class BadJob:
    """A job that this worker holds and that does not name an item of its batch."""

    job_id: int
    batch_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class WaitingBatch:
    """A batch that has jobs."""

    state: str
    closed: float | None
    """For how long its gate is closed [s]; None = it is open."""
    held: int = 0
    """Jobs that workers of the fleet hold."""
    priority: int = 0


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

    async def put(
        self, batch_id: str, items: Sequence[tuple[int, str]], retry: Sequence[str] = (), priority: int = 0
    ) -> int:
        """Put the items of a batch into the queue, in this order; return the number of new ones.

        items: number and run id.
        retry: statuses of ended runs that are resumed.
        priority: also of the jobs that were in the queue before.
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
                [batch_id] * count, [*payloads], [priority] * count, dedupe_key=keys, on_conflict="skip"
            )
            added += sum(one is not None for one in ids)
        await self.connection.fetch(queue_sql.PRIORITY, batch_id, priority)
        return added

    async def check_access(self) -> None:
        """Raise StoreUnusable, with all statements to execute, if the role of a worker lacks privileges."""
        needed = [(schema, "USAGE") for schema in (NAMESPACE, QUEUE_SCHEMA)]
        needed += [(table, one) for table, given in queue_sql.GRANTS.items() for one in given]
        names, privileges = zip(*needed, strict=True)
        rows = await self.connection.fetch(queue_sql.LACKING, [*names], [*privileges])
        lacking: dict[str, list[str]] = {}
        for row in rows:
            lacking.setdefault(_text(row, "name"), []).append(_text(row, "privilege"))
        if not lacking:
            return
        role = user_of(self.connection.url)
        tables: dict[str, list[str]] = {}
        for name, given in lacking.items():
            kind = "SCHEMA" if given == ["USAGE"] else "TABLE"
            tables.setdefault(f"{', '.join(given)} ON {kind}", []).append(name)
        grants = " ".join(f'GRANT {given} {", ".join(names)} TO "{role}";' for given, names in tables.items())
        raise StoreUnusable(
            f"{shown(self.connection.url)}: the role {role} lacks privileges; execute as owner: {grants}"
        )

    async def waiting(self) -> dict[str, WaitingBatch]:
        """Return the batches that have jobs, oldest first.

        Raises StoreUnusable if the tables of the store have another version than this program.
        """
        found = await self.connection.fetch(queue_sql.WAITING)
        self._check_version(found)
        return {
            _text(row, "batch_id"): WaitingBatch(
                _text(row, "state"), _number(row, "closed"), int(_text(row, "held")), int(_text(row, "priority"))
            )
            for row in found
            if row["batch_id"] is not None
        }

    def _check_version(self, rows: Sequence[Mapping[str, object]]) -> None:
        place = shown(self.connection.url)
        if not rows:
            raise StoreUnusable(f"{place}: {NOT_SET_UP}")
        version = _text(rows[0], "version")
        if not version.isdecimal() or int(version) > VERSION:
            raise newer_version_error(place, int(version) if version.isdecimal() else VERSION + 1)
        if int(version) < VERSION:
            raise StoreUnusable(
                f"{place}: its tables are of version {int(version)}, this worker needs {VERSION}; stop all workers, "
                "then run `specialists fleet setup`"
            )

    async def frozen(self, batch_id: str) -> Mapping[str, Any]:
        """Return the frozen values of a batch; raises UsageError if they cannot be read."""
        rows = await self.connection.fetch(queue_sql.SELECT_BATCH, batch_id)
        try:
            content = json.loads(_unpacked(rows[0]["frozen"]))
        except UNREADABLE as error:
            raise UsageError(f"batch {batch_id} cannot be read: {_line(error)}") from None
        if not isinstance(content, dict):
            raise UsageError(f"batch {batch_id} was not made for a queue: it is no JSON object")
        return content

    async def take(self, limits: Mapping[str, int], most: int) -> list[FleetJob | BadJob]:
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
        return [_job(one.id, one.entrypoint, one.attempts, one.payload or b"") for one in taken]

    async def drop(self, job_id: int) -> None:
        """Remove a job that names no item."""
        await self.connection.fetch(queue_sql.DROP, job_id, self.worker)

    async def keep(self, jobs: Collection[int]) -> set[int]:
        """Record that the worker is alive; return the jobs that it still holds."""
        found = await self.connection.fetch(queue_sql.BEAT, list(jobs), self.worker)
        return {int(str(row["id"])) for row in found}

    async def begin(self, job: FleetJob) -> StartedItem | None:
        """Begin the item of a job; None if it has already ended or was cancelled.

        Raises UsageError if its row is damaged.
        """
        found = await self.connection.fetch(queue_sql.BEGIN, job.run_id, job.batch_id)
        if not found:
            return None
        row: dict[str, Any] = found[0]
        try:
            question = _unpacked(row["question"])
        except UNREADABLE as error:
            raise UsageError(f"the question of the item cannot be read: {_line(error)}") from None
        is_limited = row["cost_limit"] is not None
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


def _job(job_id: int, batch_id: str, attempts: int, payload: bytes) -> FleetJob | BadJob:
    try:
        content = json.loads(payload)
        run_id, number, retry = content["run_id"], content["number"], content.get("retry", [])
        named = isinstance(run_id, str) and run_id.startswith(f"{batch_id}-") and content["batch"] == batch_id
        if named and type(number) is int and {*retry} <= RETRIABLE:
            return FleetJob(job_id, batch_id, run_id, number, tuple(retry), attempts)
    except UNREADABLE as error:
        return BadJob(job_id, batch_id, _line(error))
    return BadJob(job_id, batch_id, "it does not name an item of its batch")


def _unpacked(value: object) -> str:
    return unpack(bytes(value), LARGEST)  # type: ignore[call-overload]


def _line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def _text(row: Mapping[str, object], name: str) -> str:
    return str(row[name])


def _number(row: Mapping[str, object], name: str) -> float | None:
    return None if row[name] is None else float(str(row[name]))

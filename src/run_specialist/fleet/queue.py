"""Jobs and gates in the tables of PgQueuer."""

import asyncio
import json
import threading
import time
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, cast
from uuid import UUID, uuid4

import psycopg
from pgqueuer.adapters.persistence.qb import QueryBuilderEnvironment, QueryQueueBuilder, QuerySchedulerBuilder
from pgqueuer.adapters.persistence.queries import Queries
from pgqueuer.domain.settings import DBSettings, Durability
from pgqueuer.domain.types import Channel, QueueEntrypoint, QueueManagerId
from pgqueuer.ports.driver import Driver
from pgqueuer.ports.repository import EntrypointExecutionParameter
from psycopg import AsyncRawCursor, RawCursor
from psycopg.rows import dict_row

from run_specialist.batch.item import LimitReached, NotAffordable
from run_specialist.batch.limits import FIRST_PAUSE, LONGEST_PAUSE, Grants
from run_specialist.budget import dollars
from run_specialist.errors import StoreUnusable, UsageError, errors_as
from run_specialist.store.location import NAMESPACE, VERSION, newer_version_error, shown
from run_specialist.store.postgresql import parsed, readable_server_errors, user_of
from run_specialist.store.rows import pack, unpack
from run_specialist.store.tables import reason_of

SILENCE = 7.0
"""Time without a heartbeat after which another worker takes over a job [s]."""
PORTION = 5_000
"""Number of jobs per insert statement."""
# Age at which entries of the log are deleted once their jobs have ended [days].
_LOG_DAYS = 7
# Time after a pause in which only the first item uses the endpoint [s].
_PROBE_TIME = 60.0
LARGEST = 64 * 1024**2
"""Maximum size of a frozen batch or a question [bytes]; a larger one is refused before it fills the memory."""
# Statuses of ended runs that a job may resume.
_RETRIABLE = frozenset({"failed", "aborted", "partial"})
UNREADABLE = (zlib.error, ValueError, TypeError, LookupError, AttributeError, RecursionError, MemoryError)
"""Errors of a row whose bytes are not those that this program has written."""
# Advisory lock held while tables are created.
_SET_UP_LOCK = 0x52537132


@dataclass(frozen=True, slots=True)
class FleetJob:
    """A job that this worker holds; it names an item, whose state is in the store."""

    job_id: int
    batch_id: str
    run_id: str = ""
    """Its item; empty if it names no item of its batch."""
    retry: tuple[str, ...] = ()
    """Statuses of ended runs that are resumed."""
    attempts: int = 0
    """Number of endpoint failures."""


@dataclass(frozen=True, slots=True)
class WaitingBatch:
    """A batch that has jobs."""

    state: str
    closed: float | None
    """For how long its gate is closed [s]; None = it is open."""
    held: int
    """Jobs that workers of the fleet hold."""
    priority: int


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
    has_ended: bool
    """Whether its run has ended, so that taking it up costs nothing."""
    has_cost_limit: bool
    """Whether its batch has a cost limit, so that the item needs a share."""


# PostgreSQL schema of the tables of PgQueuer; its tables never mix with those of another program.
_QUEUE_SCHEMA = "run_specialist_queue"
# How long a statement may take before the connection is replaced [s].
_REPLY_TIMEOUT = 10.0
NOT_SET_UP = "the queue is not set up; run `specialists fleet setup`"

_NAMES = DBSettings(
    # All names are given, because PgQueuer reads those that are not from variables such as FUNCTION and TRIGGER.
    prefix="",
    db_schema=_QUEUE_SCHEMA,
    channel=Channel(_QUEUE_SCHEMA),
    function="fn_pgqueuer_changed",
    statistics_table="pgqueuer_statistics",
    queue_status_type="pgqueuer_status",
    queue_table="pgqueuer",
    queue_table_log="pgqueuer_log",
    trigger="tg_pgqueuer_changed",
    schedules_table="pgqueuer_schedules",
    durability=Durability.durable,
    widen_id=True,
)

# Returns the rows of a statement, which is followed by its values.
_Fetch = Callable[..., Awaitable[list[dict[str, Any]]]]


class QueueAway(Exception):
    """The database does not respond at the moment; the text is the reason, in one line."""


class Queue:
    """One process's access to the queue, in a separate connection that executes statements one after another.

    Its methods raise QueueAway if the database cannot be reached, StoreUnusable if it has no queue. After a failure the
    next statement opens a new connection; repeating the failed one is up to the caller. It has those methods of
    PgQueuer's `Driver` that statements need, and not those for its loop and for notifications.
    """

    def __init__(self, url: str) -> None:
        """Connect on the first statement.

        url: a PostgreSQL store.
        """
        self.url = url
        self.worker = QueueManagerId(uuid4())
        """Names this worker in the jobs that it holds."""
        builders = QueryBuilderEnvironment(_NAMES), QueryQueueBuilder(_NAMES), QuerySchedulerBuilder(_NAMES)
        self._queries = Queries(cast("Driver", self), *builders)
        self._connection: psycopg.AsyncConnection[Any] | None = None
        self._one_at_a_time = asyncio.Lock()

    async def fetch(self, query: str, *args: object) -> list[dict[str, Any]]:
        """Return the rows of a statement with the placeholders $1, $2, ..."""
        async with self._usable():
            return await self._fetched(query, args)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[_Fetch]:
        """Return a context with a function like `fetch` that executes all statements in one transaction.

        The transaction is rolled back if the block raises.
        """
        async with self._usable(), (await self._opened()).transaction():
            yield lambda query, *args: self._fetched(query, args)

    async def execute(self, query: str, *args: object) -> str:
        """Execute a statement."""
        await self.fetch(query, *args)
        return ""

    async def close(self) -> None:
        """Close the connection; the next statement would open another."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    @asynccontextmanager
    async def _usable(self) -> AsyncIterator[None]:
        """Run the block with exclusive use of the connection, with a timeout and readable errors."""
        async with self._one_at_a_time:
            try:
                async with asyncio.timeout(_REPLY_TIMEOUT):
                    yield
            except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName) as error:
                raise StoreUnusable(f"{shown(self.url)}: {NOT_SET_UP}") from error
            except psycopg.errors.InsufficientPrivilege as error:
                raise StoreUnusable(f"{shown(self.url)}: {reason_of(error)}") from error
            except psycopg.ProgrammingError as error:
                # Another version has changed the tables.
                raise StoreUnusable(
                    f"{shown(self.url)}: the tables of the queue do not fit this version ({in_line(error)}); install "
                    "the version of the other hosts, then run `specialists fleet setup`"
                ) from error
            except (psycopg.OperationalError, psycopg.InterfaceError, TimeoutError, OSError) as error:
                await self.close()
                raise QueueAway(in_line(error)) from error
            except BaseException:
                # The state of a statement that was cancelled is unknown.
                await self.close()
                raise

    async def _fetched(self, query: str, values: tuple[object, ...]) -> list[dict[str, Any]]:
        cursor = AsyncRawCursor(await self._opened(), row_factory=dict_row)
        await cursor.execute(query, values or None)
        return await cursor.fetchall() if cursor.description else []

    async def _opened(self) -> psycopg.AsyncConnection[Any]:
        if self._connection is None:
            self._connection = await psycopg.AsyncConnection.connect(**parameters(self.url), autocommit=True)
        return self._connection

    async def set_up(self) -> None:
        """Create or upgrade the tables; several processes may do so at the same time."""
        # A lock of the session, because PgQueuer's upgrade runs statements in separate transactions.
        await self.fetch("select pg_advisory_lock($1)", _SET_UP_LOCK)
        try:
            if await self._queries.schema_is_installed():
                await self._queries.apply_upgrade()
            else:
                await self._queries.install()
        finally:
            await self.fetch("select pg_advisory_unlock($1)", _SET_UP_LOCK)

    async def put(self, batch_id: str, run_ids: Sequence[str], retry: Sequence[str] = (), priority: int = 0) -> int:
        """Put the items of a batch into the queue, in this order; return the number of new ones.

        retry: statuses of ended runs that are resumed.
        priority: also of the jobs that were in the queue before.
        """
        added = 0
        for start in range(0, len(run_ids), PORTION):
            keys = run_ids[start : start + PORTION]
            payloads = [json.dumps({"run_id": run_id, "retry": [*retry]}).encode() for run_id in keys]
            ids = await self._queries.enqueue(
                [batch_id] * len(keys), [*payloads], [priority] * len(keys), dedupe_key=[*keys], on_conflict="skip"
            )
            added += sum(one is not None for one in ids)
        await self.fetch(_PRIORITY, batch_id, priority)
        return added

    async def check_access(self) -> None:
        """Raise StoreUnusable, with all statements to execute, if the role of a worker lacks privileges."""
        needed = [(schema, "USAGE") for schema in (NAMESPACE, _QUEUE_SCHEMA)]
        needed += [(table, one) for table, given in _GRANTS.items() for one in given]
        names, privileges = zip(*needed, strict=True)
        role = user_of(self.url)
        grants = [
            f'GRANT {row["privileges"]} ON {"TABLE" if "." in row["name"] else "SCHEMA"} {row["name"]} TO "{role}";'
            for row in await self.fetch(_LACKING, [*names], [*privileges])
        ]
        if grants:
            raise StoreUnusable(
                f"{shown(self.url)}: the role {role} lacks privileges; execute as owner: {' '.join(grants)}"
            )

    async def waiting(self) -> dict[str, WaitingBatch]:
        """Return the batches that have jobs, oldest first.

        Raises StoreUnusable if the tables of the store have another version than this program.
        """
        rows, place = await self.fetch(WAITING), shown(self.url)
        if not rows:
            raise StoreUnusable(f"{place}: {NOT_SET_UP}")
        version = rows[0]["version"]
        if not version.isdecimal() or int(version) > VERSION:
            raise newer_version_error(place, int(version) if version.isdecimal() else VERSION + 1)
        if int(version) < VERSION:
            raise StoreUnusable(
                f"{place}: its tables are of version {int(version)}, this worker needs {VERSION}; stop all workers, "
                "then run `specialists fleet setup`"
            )
        return {
            row["batch_id"]: WaitingBatch(row["state"], row["closed"], row["held"], row["priority"])
            for row in rows
            if row["batch_id"] is not None
        }

    async def frozen(self, batch_id: str) -> Mapping[str, Any]:
        """Return the frozen values of a batch; raises UsageError if they cannot be read."""
        rows = await self.fetch(SELECT_BATCH, batch_id)
        with errors_as(UsageError, f"batch {batch_id} cannot be read", *UNREADABLE):
            content = json.loads(unpack(bytes(rows[0]["frozen"]), LARGEST))
        if not isinstance(content, dict):
            raise UsageError(f"batch {batch_id} was not made for a queue: it is no JSON object")
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
        return [_job(one.id, one.entrypoint, one.attempts, one.payload or b"") for one in taken]

    async def begin(self, job: FleetJob) -> StartedItem | None:
        """Begin the item of a job; None if it has already ended or was cancelled.

        Raises UsageError if its row is damaged.
        """
        for row in await self.fetch(BEGIN, job.run_id, job.batch_id):
            with errors_as(UsageError, "the question of the item cannot be read", *UNREADABLE):
                return StartedItem(**row | {"question": unpack(bytes(row["question"]), LARGEST)})
        return None

    async def uncount(self, job: FleetJob) -> None:
        """Do not count the takeover of an item, because its run is in progress or has ended elsewhere."""
        await self.fetch(_UNCOUNT, job.run_id, job.batch_id)

    async def finish(self, job: FleetJob, state: str | None, error: str | None = None) -> bool:
        """Remove a job and set the state of its item, unless another worker has taken it; return whether this was done.

        state: None to keep that of the item.
        """
        packed = None if error is None else pack(error)
        return bool(await self.fetch(_FINISH, job.job_id, self.worker, job.run_id, job.batch_id, state, packed))

    async def hand_back(self, job: FleetJob, delay: float, *, waits: bool = True, counts: bool = False) -> bool:
        """Queue a job again, unless another worker has taken it; return whether this was done.

        delay: time before it can be taken [s].
        waits: whether the item waits; False if its run is at work elsewhere.
        counts: whether this adds to the attempts of the job.
        """
        values = (job.job_id, self.worker, job.run_id, job.batch_id, timedelta(seconds=delay), waits, int(counts))
        return bool(await self.fetch(_HAND_BACK, *values))

    async def close_gate(self, batch_id: str, wait: float | None, reason: str) -> None:
        """Pause a batch in the whole fleet.

        wait: duration that the endpoint requested; None for pauses that double [s].
        """
        await self.fetch(_CLOSE, batch_id, wait, FIRST_PAUSE, reason, LONGEST_PAUSE)

    async def may_probe(self, batch_id: str) -> bool:
        """Return whether this worker may try one item of a batch after its pause; others continue to pause."""
        return bool(await self.fetch(_PROBE, batch_id, _PROBE_TIME))

    async def open_gate(self, batch_id: str) -> None:
        """Let the fleet take the items of a batch again."""
        await self.fetch(OPEN, batch_id, False)

    async def prune_log(self) -> int:
        """Delete entries of PgQueuer's log about jobs that ended more than `_LOG_DAYS` ago; return how many."""
        return len(await self.fetch(PRUNE, timedelta(days=_LOG_DAYS), PORTION))

    async def share(
        self, job: FleetJob, own: float | None, *, worker_slots: int, batch_slots: int, typical: float
    ) -> float | None:
        """Reserve an item's share of the batch's cost limit and return it; None without a limit [USD].

        An earlier reservation of the item, whose worker may have died, is replaced. If no item can begin any more, the
        batch ends and its jobs are removed; the items stay, so that a call with a higher limit puts them back.
        own: the remainder of the run's own limit; None = no limit [USD].
        worker_slots: how many items a worker works on at the same time.
        batch_slots: how many items the fleet may work on at the same time; 0 = any number.
        typical: cost of an item, from past runs; 0 = unknown [USD].
        Raises NotAffordable while other items may return a part of their shares, LimitReached if none can.
        """
        batch, run = job.batch_id, job.run_id
        async with self.transaction() as fetch:
            (locked,) = await fetch(_LOCK, batch)
            if locked["cost_limit"] is None:
                return None
            if not await fetch(_MINE, job.job_id, self.worker):
                raise NotAffordable(batch)
            limit = locked["cost_limit"]
            (sums,) = await fetch(_TAKEN, batch, run)
            (fleet,) = await fetch(FLEET, batch)
            slots = batch_slots or fleet["workers"] * worker_slots + _SPARE
            free = max(min(slots, fleet["jobs"]) - sums["under_way"], 1)
            granted = Grants(limit, free, spent=sums["taken"], typical=max(typical, sums["dearest"])).take(own)
            if granted is not None:
                await fetch(_RESERVE, batch, run, sums["own"] + granted)
                return granted
            if not sums["under_way"]:
                await fetch(_RESERVE, batch, run, None)
                await fetch(END, batch, pack(f"the cost limit of {dollars(limit)} leaves too little for another item"))
                await fetch(CANCEL, batch, job.job_id)
        raise NotAffordable(batch) if sums["under_way"] else LimitReached(batch)


def _job(job_id: int, batch_id: str, attempts: int, payload: bytes) -> FleetJob:
    with suppress(*UNREADABLE):
        content = json.loads(payload)
        run_id, retry = content["run_id"], tuple(content["retry"])
        if run_id.startswith(f"{batch_id}-") and {*retry} <= _RETRIABLE:
            return FleetJob(job_id, batch_id, run_id, retry, attempts)
    return FleetJob(job_id, batch_id)


def parameters(url: str) -> dict[str, Any]:
    """Return the parameters of the driver, as the connections of the store have them."""
    with readable_server_errors(url):
        settings = parsed(url).update_query_dict({"application_name": "run-specialist queue"})
        return dict(settings.get_dialect()().create_connect_args(settings)[1])


def in_line(error: BaseException) -> str:
    """Return the text of an error on one line, or its type if it has none."""
    return " ".join(str(error).split()) or type(error).__name__


# Time without a sign of the event loop after which the worker counts as dead [s].
_LOOP_PATIENCE = 60.0


class Heartbeat(threading.Thread):
    """Reports to the queue that the worker is alive, until it is stopped; a frozen process reports nothing."""

    INTERVAL = 2.0
    """Time between two heartbeats, of which three may be missing [s]."""

    def __init__(self, url: str, worker: UUID, held: Callable[[], Collection[int]]) -> None:
        """Prepare the thread.

        worker: the name of the worker in the queue.
        held: returns the ids of the jobs that it works on; called in the thread.
        """
        super().__init__(name="run-specialist heart", daemon=True)
        self._url, self._worker, self._held = url, worker, held
        self._stopped_by = threading.Event()
        self._responded = time.monotonic()

    def respond(self) -> None:
        """Show that the event loop is alive; call it regularly from the event loop."""
        self._responded = time.monotonic()

    def stop(self) -> None:
        """End the thread, without waiting for a heartbeat in progress."""
        self._stopped_by.set()

    def run(self) -> None:
        """Send heartbeats."""
        connection: psycopg.Connection[Any] | None = None
        while not self._stopped_by.wait(self.INTERVAL):
            if time.monotonic() - self._responded < _LOOP_PATIENCE and (held := [*self._held()]):
                try:
                    if connection is None or connection.closed:
                        connection = psycopg.connect(**parameters(self._url), autocommit=True)
                    RawCursor(connection).execute(BEAT, (held, self._worker))
                except Exception:  # noqa: BLE001 - a database that is away is the concern of the event loop
                    # The next heartbeat connects again.
                    if connection is not None:
                        connection.close()
        if connection is not None:
            connection.close()


# Statements missing in PgQueuer: they change a job only while its worker still holds it.
#
# A worker that was frozen may have lost its jobs. PgQueuer's own statements would then delete the job of the worker
# that has it now, whose item would be lost if that worker died. Job and item change in one statement, so that neither
# can change alone.

JOBS, LOG = f"{_QUEUE_SCHEMA}.pgqueuer", f"{_QUEUE_SCHEMA}.pgqueuer_log"
BATCHES, ITEMS, RUNS, TURNS, GATES = (f"{NAMESPACE}.{name}" for name in ("batches", "items", "runs", "turns", "gates"))

# The privileges on tables that a worker needs; it also needs USAGE of both schemas.
_GRANTS: dict[str, tuple[str, ...]] = {
    BATCHES: ("SELECT", "UPDATE (state, reason)"),
    ITEMS: ("SELECT", "UPDATE"),
    GATES: ("SELECT", "INSERT", "UPDATE", "DELETE"),
    **{f"{NAMESPACE}.{name}": ("SELECT", "INSERT", "UPDATE") for name in ("runs", "turns", "calls")},
    **{f"{NAMESPACE}.{name}": ("SELECT", "INSERT", "UPDATE") for name in ("events", "changes", "search")},
    f"{NAMESPACE}.messages": ("SELECT", "INSERT", "UPDATE", "DELETE"),
    f"{NAMESPACE}.alembic_version": ("SELECT",),
    JOBS: ("SELECT", "UPDATE", "DELETE"),
    LOG: ("SELECT", "INSERT", "UPDATE", "DELETE"),
}

# Selects the privileges that the role of this session lacks; values: names of schemas and tables, privileges.
_LACKING = """
select name, string_agg(privilege, ', ') as privileges from unnest($1::text[], $2::text[]) as needed (name, privilege)
where case
    when privilege = 'USAGE' then not has_schema_privilege(name, privilege)
    when not has_schema_privilege(split_part(name, '.', 1), 'USAGE') then true
    when privilege = 'DELETE' then not has_table_privilege(name, privilege)
    else not has_any_column_privilege(name, split_part(privilege, ' ', 1)) end
group by name order by name
"""

_LOGGED = f"insert into {LOG} (job_id, status, entrypoint, priority) select id, {{}}, entrypoint, priority from mine"
_ITEM_OF_MINE = "where run_id = $3 and batch_id = $4 and exists (select 1 from mine)"

# Deletes a job, sets the state of its item, and returns the unspent part of the item's share of the cost limit.
#
# If the cost of its run is unknown, the whole grant counts as spent. Values: job, worker, run, batch, state (null =
# as it is), packed error.
_FINISH = f"""
with mine as (delete from {JOBS} where id = $1 and queue_manager_id = $2 returning id, entrypoint, priority),
logged as ({_LOGGED.format("'successful'")}),
item as (
    update {ITEMS} i set state = coalesce($5, state), error = $6, granted = case
        when exists (select 1 from {RUNS} r where r.run_id = i.run_id and r.cost_usd is null) then granted end
    {_ITEM_OF_MINE}
)
select id from mine
"""

# Queues a job again.
#
# Values: job, worker, run, batch, delay, whether the item waits and is not at work elsewhere, attempts to add.
_HAND_BACK = f"""
with mine as (
    update {JOBS} set status = 'queued', execute_after = now() + $5::interval, attempts = attempts + $7::int,
        updated = now(), queue_manager_id = null, slot = null
    where id = $1 and queue_manager_id = $2 returning id, entrypoint, priority
),
logged as ({_LOGGED.format("'queued'")}),
item as (update {ITEMS} set state = 'waiting', granted = null {_ITEM_OF_MINE} and $6 and state = 'begun')
select id from mine
"""

BEAT = f"""
update {JOBS} set heartbeat = now() where id = any($1::bigint[]) and queue_manager_id = $2 returning id
"""
"""Records heartbeats; returns the jobs that the worker still holds."""

BEGIN = f"""
with before as (
    select run_id, batch_id, state, turns, takeovers,
        (select count(*) from {TURNS} t where t.run_id = i.run_id) as made,
        exists (select 1 from {RUNS} r where r.run_id = i.run_id and r.status <> 'running') as has_ended
    from {ITEMS} i where run_id = $1 and batch_id = $2 for update
)
update {ITEMS} i set state = 'begun', turns = made, takeovers =
    case when before.turns < made then 0 else before.takeovers end
    + case when before.state = 'begun' and not has_ended then 1 else 0 end
from before where i.run_id = before.run_id and i.batch_id = before.batch_id
    and before.state in ('waiting', 'begun')
returning before.state = 'begun' as taken_over, i.takeovers, i.question, has_ended,
    (select owner from {RUNS} r where r.run_id = $1) as owner,
    (select cost_limit from {BATCHES} b where b.batch_id = $2) is not null as has_cost_limit
"""
"""Begins an item. If it was not handed back, its worker has died: this is a takeover, counted since the newest turn."""

# Reverts the count of a takeover that was not one.
_UNCOUNT = f"update {ITEMS} set takeovers = greatest(takeovers - 1, 0) where run_id = $1 and batch_id = $2"

WAITING = f"""
select v.version_num as version, b.batch_id, b.state,
    (greatest(g.until, g.probe) - extract(epoch from now()))::float8 as closed,
    (select count(*) from {JOBS} j where j.queue_manager_id is not null and j.entrypoint = b.batch_id) as held,
    coalesce((select max(priority) from {JOBS} j where status = 'queued' and entrypoint = b.batch_id), 0) as priority
from {NAMESPACE}.alembic_version v
left join {BATCHES} b on exists (select 1 from {JOBS} j where j.entrypoint = b.batch_id)
left join {GATES} g on g.batch_id = b.batch_id
order by b.created_at, b.batch_id
"""
"""Selects the batches that have jobs, oldest first, with the version of the tables; at least one row.

`closed`: for how long the gate is closed [s], null = it is open; `held`: jobs that workers hold.
"""

# Sets the priority of all jobs of a batch.
_PRIORITY = f"update {JOBS} set priority = $2 where entrypoint = $1 and priority <> $2"

SELECT_BATCH = f"select frozen from {BATCHES} where batch_id = $1"

# Lets one worker of the fleet try one item after a pause; values: batch, time for it [s].
_PROBE = f"""
update {GATES} set probe = extract(epoch from now()) + $2::float
where batch_id = $1 and greatest(until, probe) <= extract(epoch from now()) returning batch_id
"""

# Closes the gate of a batch; values: batch, requested wait [s], first pause, reason, longest pause.
#
# Further runs that fail in the same outage do not prolong the pause.
_CLOSE = f"""
insert into {GATES} as g (batch_id, until, probe, failures, reason)
values ($1, extract(epoch from now()) + coalesce($2::float, $3::float), 0, 1, $4)
on conflict (batch_id) do update set reason = excluded.reason, probe = 0,
    failures = g.failures + case when g.until <= extract(epoch from now()) then 1 else 0 end,
    until = greatest(g.until, extract(epoch from now()) + coalesce($2,
        case when g.until <= extract(epoch from now()) then least($3 * power(2, g.failures), $5::float) else 0 end))
"""

OPEN = f"delete from {GATES} where batch_id = $1 and (until <= extract(epoch from now()) or $2)"
"""Opens the gate of a batch after its pause; values: batch, whether its pause is ended."""

CANCEL = f"""
with gone as (
    delete from {JOBS} where entrypoint = $1 and (status <> 'picked' or id = $2) returning id, entrypoint, priority
)
insert into {LOG} (job_id, status, entrypoint, priority) select id, 'canceled', entrypoint, priority from gone
returning job_id
"""
"""Deletes the jobs of a batch that no worker holds, and one more; values: batch, job. Their items stay unchanged."""

PRUNE = f"""
delete from {LOG} where id in (
    select id from {LOG} l where created < now() - $1::interval
        and not exists (select 1 from {JOBS} j where j.id = l.job_id)
    limit $2 for update skip locked
) returning id
"""
"""Deletes old entries of the log of jobs that have ended; values: age, how many at most."""

TO_DO = f"""
select run_id from {ITEMS} where batch_id = $1 and number is not null and state in ('waiting', 'begun')
order by number
"""
"""Selects the items of the newest call that have not ended."""

TO_RETRY = f"""
select i.run_id from {ITEMS} i left join {RUNS} r on r.run_id = i.run_id
where i.batch_id = $1 and i.number is not null
    and (i.state = 'dead' or i.state = 'ended' and (r.run_id is null or r.status = any($2::text[])))
order by i.number
"""
"""Selects the items that were abandoned, that have no run, or whose run ended with one of some statuses."""

STATUS = f"""
select b.batch_id, b.specialist, b.state, b.reason as packed, g.reason as closed_by, b.cost_limit::float8,
    case when greatest(g.until, g.probe) > extract(epoch from now()) then greatest(g.until, g.probe)::float8 end
        as closed_until,
    coalesce((select json_object_agg(state, count) from (
        select case when i.state in ('dead', 'cancelled') then i.state
            when i.state = 'ended' then coalesce(r.status, 'failed') else i.state end as state, count(*) as count
        from {ITEMS} i left join {RUNS} r on r.run_id = i.run_id
        where i.batch_id = b.batch_id and i.number is not null group by 1
    ) as by_state), '{{}}') as items,
    jobs.*, money.*
from {BATCHES} b left join {GATES} g on g.batch_id = b.batch_id
cross join lateral (
    select count(*) filter (where status = 'queued') as queued, count(*) filter (where status = 'picked') as at_work,
        count(distinct queue_manager_id) as workers,
        max(extract(epoch from now() - heartbeat)) filter (where status = 'picked')::float8 as silent
    from {JOBS} where entrypoint = b.batch_id
) as jobs
cross join lateral (
    select coalesce(sum(r.cost_usd), 0)::float8 as cost_usd,
        coalesce(sum(greatest(i.granted - coalesce(r.cost_usd, 0), 0)), 0)::float8 as granted_usd
    from {ITEMS} i left join {RUNS} r on r.run_id = i.run_id where i.batch_id = b.batch_id
) as money
where b.batch_id = any($1::text[]) or $2 and exists (select 1 from {JOBS} j where j.entrypoint = b.batch_id)
order by b.created_at, b.batch_id
"""
"""Selects the state of some batches; values: their ids, and whether those that have jobs are added.

Counts the items by state and the jobs; `silent`: age of the oldest heartbeat [s]; `granted_usd`: what the items in
progress may still spend.
"""

# Number of shares of a cost limit reserved for workers that start later.
_SPARE = 1

# Selects the limit of a batch, and locks it against other workers that request a share.
_LOCK = f"select cost_limit::float8 from {BATCHES} where batch_id = $1 for update"

# Selects a job if the worker still holds it; values: job, worker.
_MINE = f"select id from {JOBS} where id = $1 and queue_manager_id = $2 for update"

# Selects the spent and the granted amounts of the items of a batch, for the requesting item; values: batch, run.
#
# `taken`: of all items, without the earlier grant of the requesting item; `dearest`: cost of the most expensive run;
# `own`: cost of the item so far [USD]; `under_way`: other items with a grant.
_TAKEN = f"""
select (coalesce(sum(greatest(coalesce(i.granted, 0), coalesce(r.cost_usd, 0))) filter (where i.run_id <> $2), 0)
        + coalesce(max(r.cost_usd) filter (where i.run_id = $2), 0))::float8 as taken,
    coalesce(max(r.cost_usd), 0)::float8 as dearest,
    coalesce(max(r.cost_usd) filter (where i.run_id = $2), 0)::float8 as own,
    count(*) filter (where i.run_id <> $2 and i.state = 'begun' and i.granted is not null) as under_way
from {ITEMS} i left join {RUNS} r on r.run_id = i.run_id where i.batch_id = $1
"""

FLEET = f"""
select count(*) as jobs, count(distinct queue_manager_id) filter (where status = 'picked') as workers
from {JOBS} where entrypoint = $1
"""
"""Counts the jobs of a batch, and the workers that hold some."""

# Grants an item the maximum cost of its run, or makes it wait again; values: batch, run, cost or null [USD].
_RESERVE = f"""
update {ITEMS} set granted = $3::float8, state = case when $3 is null then 'waiting' else state end
where batch_id = $1 and run_id = $2
"""

END = f"update {BATCHES} set state = 'ended', reason = $2 where batch_id = $1 and state in ('open', 'paused')"
"""Ends a batch whose limit leaves too little for another item; values: batch, packed reason."""

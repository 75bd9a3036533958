"""Operations on batches in the queue: put, list, pause, resume, cancel and retry."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

from run_specialist.errors import StoreUnusable, UsageError
from run_specialist.fleet import queue_sql
from run_specialist.fleet.queue import LARGEST, UNREADABLE, Queue
from run_specialist.fleet.queue_connection import QueueAway
from run_specialist.store.batches import BatchWriter
from run_specialist.store.location import shown
from run_specialist.store.packing import unpack


@dataclass(frozen=True, slots=True)
class BatchStatus:
    """The state of a batch in the queue."""

    batch_id: str
    specialist: str
    state: str
    """`open`, `paused`, `cancelled` or `ended`."""
    reason: str | None
    """The reason for its state, or for a pause of its endpoint; None if there is none."""
    closed_until: float | None
    """Time until which no worker takes its items, after refused requests [seconds since 1970]; None = now."""
    items: dict[str, int] = field(default_factory=dict)
    """Items by state: `waiting`, `begun`, `dead`, `cancelled`, or the status of the run."""
    queued: int = 0
    at_work: int = 0
    """Items that a worker holds."""
    workers: int = 0
    silent: float | None = None
    """Age of the oldest heartbeat [s]; None = no worker holds an item."""
    cost_usd: float = 0.0
    """Known cost of all its runs so far [USD]."""
    cost_limit: float | None = None
    """Of all items together; None = no limit [USD]."""
    granted_usd: float = 0.0
    """The amount that the items in progress may still spend of the limit [USD]."""


class Control:
    """Access to the queue for one command.

    Its methods raise UsageError if the batch is unknown, and StoreUnusable if the database cannot be used.
    """

    def __init__(self, url: str) -> None:
        """Connect on first use.

        url: a PostgreSQL store.
        """
        self._url = url
        self._queue = Queue(url)

    async def set_up(self) -> None:
        """Create or upgrade the tables of store and queue."""
        await asyncio.to_thread(_create_store, self._url)
        await self._queue.set_up()

    async def put(self, batch_id: str) -> int:
        """Put the items of a stored batch that have not ended into the queue; return how many were not there yet."""
        items = await self._items(queue_sql.TO_DO, batch_id)
        return await self._queue.put(batch_id, items, priority=await self._priority(batch_id))

    async def status(self, batch_id: str | None = None) -> list[BatchStatus]:
        """Return the state of one batch, or of all batches that have jobs."""
        found = await statuses(self._queue, batch_id)
        if batch_id is not None and not found:
            raise UsageError(f"there is no batch {batch_id} in {shown(self._url)}")
        return found

    async def pause(self, batch_id: str) -> None:
        """Pause a batch: no more of its items start, and items in progress continue."""
        await self._set_state(batch_id, "paused", "paused by `specialists fleet pause`")

    async def resume(self, batch_id: str) -> None:
        """Let workers take the items of a batch again, even if its endpoint refused requests a moment ago."""
        await self._set_state(batch_id, "open")
        await self._queue.connection.fetch(queue_sql.FORGET_GATE, batch_id)

    async def cancel(self, batch_id: str) -> int:
        """End a batch: items that have not begun are not run, others end after their turn; return how many have not."""
        await self._set_state(batch_id, "cancelled", "cancelled by `specialists fleet cancel`")
        return await self._queue.cancel(batch_id)

    async def retry(self, batch_id: str, statuses: Sequence[str]) -> int:
        """Put abandoned items, and items without a run, into the queue again; return how many.

        statuses: also those whose runs ended with one of these; such runs are resumed.
        """
        await self.status(batch_id)
        items = await self._items(queue_sql.TO_RETRY, batch_id, [*statuses])
        await asyncio.to_thread(_put_back, self._url, batch_id, [run_id for _, run_id in items])
        if items:
            await self._set_state(batch_id, "open")
        return await self._queue.put(batch_id, items, statuses, await self._priority(batch_id))

    async def _priority(self, batch_id: str) -> int:
        try:
            return _count((await self._queue.frozen(batch_id)).get("priority"))
        except (UsageError, ValueError) as error:
            if isinstance(error, StoreUnusable):
                raise
            return 0

    async def _items(self, statement: str, *values: object) -> list[tuple[int, str]]:
        rows = await self._queue.connection.fetch(statement, *values)
        return [(_count(row["number"]), str(row["run_id"])) for row in rows]

    async def _set_state(self, batch_id: str, state: str, reason: str | None = None) -> None:
        await self.status(batch_id)
        await asyncio.to_thread(set_state, self._url, batch_id, state, reason)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, _: object, error: BaseException | None, __: object) -> None:
        await self._queue.close()
        if isinstance(error, QueueAway):
            raise StoreUnusable(f"{shown(self._url)}: {error}") from error


async def statuses(queue: Queue, batch_id: str | None = None) -> list[BatchStatus]:
    """Return the state of one batch, or of all batches that have jobs; empty if it is unknown."""
    rows = await queue.connection.fetch(queue_sql.STATUS, batch_id)
    jobs = {str(row["batch_id"]): row for row in await queue.counts()}
    return [_status(row, jobs.get(str(row["batch_id"]), {})) for row in rows]


def _status(row: Mapping[str, object], jobs: Mapping[str, object]) -> BatchStatus:
    packed = row["reason"]
    return BatchStatus(
        str(row["batch_id"]),
        str(row["specialist"]),
        str(row["state"]),
        _reason(packed) if isinstance(packed, bytes) else _optional_text(row["closed_by"]),
        _amount(row["closed_until"]),
        dict(row["items"]) if isinstance(row["items"], dict) else {},
        _count(jobs.get("queued")),
        _count(jobs.get("picked")),
        _count(jobs.get("workers")),
        _amount(jobs.get("silent")),
        _amount(row["cost"]) or 0.0,
        _amount(row["cost_limit"]),
        _amount(row["granted"]) or 0.0,
    )


def _reason(packed: bytes) -> str:
    try:
        return unpack(packed, LARGEST)
    except UNREADABLE:
        return "its reason cannot be read"


def _create_store(url: str) -> None:
    BatchWriter(url).close()


def set_state(url: str, batch_id: str, state: str, reason: str | None) -> None:
    """Set the state of a batch; blocks. Raises StoreUnusable."""
    with BatchWriter(url) as writer:
        writer.set_state(batch_id, state, reason)


def _put_back(url: str, batch_id: str, run_ids: Sequence[str]) -> None:
    with BatchWriter(url) as writer:
        writer.put_back(batch_id, run_ids)


def _optional_text(value: object) -> str | None:
    return None if value is None else str(value)


def _amount(value: object) -> float | None:
    return None if value is None else float(str(value))


def _count(value: object) -> int:
    return 0 if value is None else int(str(value))

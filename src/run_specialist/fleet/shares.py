"""The shares of items in the cost limit of their batch, counted over the whole fleet in PostgreSQL."""

from run_specialist.batch.grants import Grants
from run_specialist.batch.item_run import LimitReached, NotAffordable
from run_specialist.budget.units import dollars
from run_specialist.fleet import share_sql
from run_specialist.fleet.queue import FleetJob, Queue
from run_specialist.store.packing import pack

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
        (locked,) = await fetch(share_sql.LOCK, batch)
        if locked["cost_limit"] is None:
            return None
        if not await fetch(share_sql.MINE, job.job_id, queue.worker):
            raise NotAffordable(batch)
        limit = _number(locked["cost_limit"])
        (sums,) = await fetch(share_sql.TAKEN, batch, run)
        (fleet,) = await fetch(share_sql.FLEET, batch)
        taken, under_way = _number(sums["taken"]), int(_number(sums["under_way"]))
        slots = batch_slots or int(_number(fleet["workers"])) * worker_slots + SPARE
        free = max(min(slots, int(_number(fleet["jobs"]))) - under_way, 1)
        grants = Grants(limit, free, spent=taken, typical=max(typical, _number(sums["dearest"])))
        granted = grants.take(own)
        if granted is not None:
            await fetch(share_sql.RESERVE, batch, run, _number(sums["own"]) + granted)
            return granted
        if not under_way:
            await fetch(share_sql.WAIT_AGAIN, batch, run)
            await fetch(share_sql.END, batch, pack(reached(limit)))
            await fetch(share_sql.REMOVE, batch, job.job_id)
    raise NotAffordable(batch) if under_way else LimitReached(batch)


def reached(limit: float) -> str:
    """Return the reason of a batch that ended at its limit [USD]."""
    return f"the cost limit of {dollars(limit)} leaves too little for another item"


def _number(value: object) -> float:
    return float(str(value))

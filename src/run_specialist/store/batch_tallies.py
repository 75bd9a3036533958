"""Count the items of batches by status, and sum the usage of their runs."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Row, Select, func, select

from run_specialist.store.batch_status import (
    FAILED,
    ITEM_STATUSES,
    MAY_WAIT,
    NOT_RUN,
    OWNER,
    STORED_STATUS,
    WITH_RUNS,
    is_endpoint_failure,
)
from run_specialist.store.descendants import portions
from run_specialist.store.from_rows import outcome
from run_specialist.store.selection import INTERRUPTED
from run_specialist.store.stored_batch import BatchTotals
from run_specialist.store.tables import items, runs
from run_specialist.store.to_rows import RUNNING

_SUMS = ("runs", "unknown_costs", "cost_usd", "tool_calls", "worked_s")


def tallies(connection: Connection, batch_ids: Sequence[str], is_dead: Callable[[str], bool]) -> dict[str, BatchTotals]:
    """Return counts and sums by batch; a batch that has no items has an empty tally.

    is_dead: whether the process that owns a run has died.
    """
    groups: dict[str, list[Row[Any]]] = {batch_id: [] for batch_id in batch_ids}
    for part in portions(batch_ids):
        for row in connection.execute(_sums(part)):
            groups[row.batch_id].append(row)
    found = {}
    for batch_id, rows in groups.items():
        dead = {row.owner for row in rows if row.owner and is_dead(row.owner)}
        taken_back = _count_taken_back(connection, batch_id) if any(row.may_wait for row in rows) else 0
        found[batch_id] = _tally(rows, dead, taken_back)
    return found


def _sums(batch_ids: Sequence[str]) -> Select[Any]:
    """Return the query for the sums, by batch and by everything that the status of an item depends on."""
    each = (
        select(
            items.c.batch_id,
            items.c.number.is_not(None).label("current"),
            STORED_STATUS.label("status"),
            OWNER.label("owner"),
            func.coalesce(MAY_WAIT, False).label("may_wait"),
            runs.c.run_id,
            runs.c.cost_usd,
            runs.c.tool_calls,
            runs.c.duration_s,
            runs.c.started_at,
            runs.c.ended_at,
        )
        .select_from(WITH_RUNS)
        .where(items.c.batch_id.in_(batch_ids))
        .subquery()
    )
    # Grouping by the columns of a subquery, since PostgreSQL does not recognize an expression with parameters.
    groups = (each.c.batch_id, each.c.current, each.c.status, each.c.owner, each.c.may_wait)
    return select(
        *groups,
        func.count().label("items"),
        func.count(each.c.run_id).label("runs"),
        (func.count(each.c.run_id) - func.count(each.c.cost_usd)).label("unknown_costs"),
        func.coalesce(func.sum(each.c.cost_usd), 0.0).label("cost_usd"),
        func.coalesce(func.sum(each.c.tool_calls), 0).label("tool_calls"),
        func.coalesce(func.sum(each.c.duration_s), 0.0).label("worked_s"),
        func.min(each.c.started_at).label("started_at"),
        func.max(each.c.ended_at).label("ended_at"),
    ).group_by(*groups)


def _count_taken_back(connection: Connection, batch_id: str) -> int:
    """Return how many failed items of the newest call will be resumed."""
    chosen = (items.c.batch_id == batch_id, items.c.number.is_not(None), MAY_WAIT)
    query = select(runs.c.outcome).select_from(WITH_RUNS).where(*chosen)
    return sum(is_endpoint_failure(outcome(body)) for body in connection.execute(query).scalars())


def _tally(rows: Sequence[Row[Any]], dead: set[str], taken_back: int) -> BatchTotals:
    """Return the tally of one batch.

    dead: owners of interrupted runs.
    taken_back: number of failed items that count as not run.
    """
    counts = dict.fromkeys(ITEM_STATUSES, 0)
    for row in rows:
        if row.current:
            status = INTERRUPTED if row.status == RUNNING and row.owner in dead else row.status
            counts[status] = counts.get(status, 0) + row.items
    counts[FAILED] -= taken_back
    counts[NOT_RUN] += taken_back
    starts = [row.started_at for row in rows if row.started_at is not None]
    ends = [row.ended_at for row in rows if row.ended_at is not None]
    sums: Mapping[str, Any] = {name: sum(getattr(row, name) for row in rows) for name in _SUMS}
    return BatchTotals(
        counts={status: count for status, count in counts.items() if count},
        earlier=sum(row.items for row in rows if not row.current),
        started_at=min(starts, default=None),
        ended_at=max(ends, default=None),
        **sums,
    )

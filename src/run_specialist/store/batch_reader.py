"""Read stored batches, their statuses and totals."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Select, and_, case, func, literal, select

from run_specialist.errors import RunNotFound
from run_specialist.store.batches import StoredBatch
from run_specialist.store.location import shown
from run_specialist.store.reader import OpenedStore, delete_runs
from run_specialist.store.rows import column_text, outcome
from run_specialist.store.schema import DEAD, RUNNING, WAITING
from run_specialist.store.selection import INTERRUPTED, ambiguous, portions
from run_specialist.store.stored import BatchTotals, ItemResult
from run_specialist.store.tables import batches, items, runs

FAILED, NOT_RUN = "failed", "not run"
ITEM_STATUSES = ("answered", "landed", "partial", FAILED, "aborted", DEAD, RUNNING, INTERRUPTED, NOT_RUN)
"""All statuses of items, in the order of a listing: those of runs, `dead` and `not run`."""
FAILURES = (FAILED, "aborted", DEAD)
"""The statuses of items that have no answer and are not run again automatically."""
ENDPOINT_KINDS = frozenset(
    {"rate_limited", "overloaded", "quota", "credentials", "model_missing", "connection", "server_error"}
)
"""Kinds of errors that the endpoint, not the item, causes."""

WITH_RUNS = items.outerjoin(runs, runs.c.run_id == items.c.run_id)
"""Items with their runs; those without a run have NULLs."""
OWNER = case((runs.c.status == RUNNING, runs.c.owner))
"""The process of a run that has not ended."""
STORED_STATUS: ColumnElement[str] = case(
    (and_(runs.c.run_id.is_(None), items.c.state == DEAD), literal(DEAD)),
    (and_(runs.c.run_id.is_(None), items.c.error.is_not(None)), literal(FAILED)),
    (runs.c.run_id.is_(None), literal(NOT_RUN)),
    (and_(runs.c.status == RUNNING, items.c.state == DEAD), literal(DEAD)),
    else_=runs.c.status,
)
"""Status of an item joined with its run, as stored in the database; an interrupted run is still `running`."""
MAY_WAIT = and_(runs.c.status == FAILED, items.c.state == WAITING)
"""Whether an item may have been taken back after its run failed; `is_endpoint_failure` decides."""


def is_endpoint_failure(outcome: Mapping[str, Any] | None) -> bool:
    """Return whether a run failed because of the endpoint: it will be resumed, and its item counts as not run."""
    return (outcome or {}).get("error_kind") in ENDPOINT_KINDS


LAST = "last"
"""Alias for the newest batch."""
ITEMS_AT_ONCE = 500
"""Number of items read per transaction; a longer transaction would keep the file from shrinking."""

_NEWEST_FIRST = (batches.c.created_at.desc(), batches.c.batch_id.desc())
_ITEMS = select(
    items.c.number,
    items.c.run_id,
    items.c.input,
    items.c.question,
    items.c.error,
    STORED_STATUS.label("status"),
    OWNER.label("owner"),
    MAY_WAIT.label("may_wait"),
    case((runs.c.status != RUNNING, runs.c.outcome)).label("outcome"),
    runs.c.tool_calls,
    runs.c.cost_usd,
    runs.c.duration_s,
    runs.c.started_at,
).select_from(WITH_RUNS)


JUDGES = "-judges"
"""Suffix of the id of the batch with an eval's judges, after the id of the eval."""


class StoredBatches(OpenedStore):
    """The batches of a store opened for reading; only `delete` writes to it."""

    def listed(self, project: str | None = None, limit: int | None = None) -> list[StoredBatch]:
        """Return batches, newest first.

        project: only those of this project; None = all.
        limit: maximum number.
        """
        query = select(batches).order_by(*_NEWEST_FIRST).limit(limit)
        if project is not None:
            query = query.where(batches.c.project == column_text(project))
        with self._snapshot() as connection:
            return [_batch(row) for row in connection.execute(query)]

    def find(self, batch_id: str, project: str | None = None) -> StoredBatch:
        """Return the batch with this id or unique id prefix; `last` is the newest.

        project: the project that `last` is limited to.
        Raises RunNotFound, which lists matching ids.
        """
        if batch_id == LAST:
            found = self.listed(project, 1)
            if not found:
                raise RunNotFound(f"{shown(self.url)} contains no batches{f' of {project}' if project else ''} yet")
            return found[0]
        matching = self._matching(batch_id)
        for match in matching:
            if match.batch_id == batch_id or len(matching) == 1:
                return match
        if not matching:
            raise RunNotFound(f"there is no batch {batch_id} in {shown(self.url)}; `specialists batches` lists them")
        raise RunNotFound(ambiguous("batch", batch_id, [match.batch_id for match in matching]))

    def meant(self, given: str) -> StoredBatch | None:
        """Return the batch with this id or unique id prefix; None if there is none, or if it is the id of a run."""
        matching = self._matching(given) if given.strip() else []
        exact = next((one for one in matching if one.batch_id == given), None)
        if exact is not None or len(matching) != 1:
            return exact
        with self._snapshot() as connection:
            is_run = connection.execute(select(runs.c.run_id).where(runs.c.run_id == column_text(given))).first()
        return None if is_run else matching[0]

    def _matching(self, prefix: str) -> list[StoredBatch]:
        if not prefix.strip():
            raise RunNotFound("the batch id is empty; use an id, the start of one, or `last`")
        chosen = batches.c.batch_id.startswith(column_text(prefix), autoescape=True)
        with self._snapshot() as connection:
            found = connection.execute(select(batches).where(chosen).order_by(*_NEWEST_FIRST)).all()
        # Every beginning of the id of an eval is one of that of its judges, too.
        evals = {f"{row.batch_id}{JUDGES}" for row in found}
        return [_batch(row) for row in found if row.batch_id not in evals]

    def tallies(self, batch_ids: Sequence[str]) -> dict[str, BatchTotals]:
        """Return counts and sums by batch; a batch that has no items has an empty tally."""
        with self._snapshot() as connection:
            return tallies(connection, batch_ids, cache(self._is_dead))

    def tally(self, batch_id: str) -> BatchTotals:
        """Return counts and sums of one batch."""
        return self.tallies([batch_id])[batch_id]

    def items(self, batch_id: str, *, failures: bool = False) -> Iterator[ItemResult]:
        """Yield the items of the newest call by number; they are read a few at a time.

        failures: only those whose status is in `FAILURES`.
        """
        is_dead = cache(self._is_dead)
        query = _ITEMS.where(items.c.batch_id == column_text(batch_id), items.c.number.is_not(None))
        if failures:
            query = query.where(STORED_STATUS.in_(FAILURES))
        last = 0
        while True:
            following = query.where(items.c.number > last).order_by(items.c.number, items.c.run_id)
            with self._snapshot() as connection:
                rows = connection.execute(following.limit(ITEMS_AT_ONCE)).all()
                found = [_item(row, is_dead=row.owner is not None and is_dead(row.owner)) for row in rows]
            yield from (item for item in found if not failures or item.status in FAILURES)
            if len(rows) < ITEMS_AT_ONCE:
                return
            last = rows[-1].number

    def endpoint_failures(self, batch_id: str) -> set[str]:
        """Return the ids of a batch's runs that failed because of the endpoint, which a repeated call resumes."""
        failed = (items.c.batch_id == column_text(batch_id), runs.c.status == FAILED)
        with self._snapshot() as connection:
            rows = connection.execute(select(runs.c.run_id, runs.c.outcome).select_from(WITH_RUNS).where(*failed))
            return {row.run_id for row in rows if is_endpoint_failure(outcome(row.outcome))}

    def delete(self, batch_id: str) -> None:
        """Delete a batch with its items and their runs, all or nothing.

        Raises UsageError if one of the runs is still running, StoreUnusable if the store cannot be written.
        """
        self._engine.dispose()
        delete_runs(self.url, (), [batch_id])


def _batch(row: Row[Any]) -> StoredBatch:
    return StoredBatch(**{**row._asdict(), "frozen": json.loads(row.frozen)})


def _item(row: Row[Any], *, is_dead: bool) -> ItemResult:
    final = outcome(row.outcome)
    status = row.status
    if status == RUNNING and is_dead:
        status = INTERRUPTED
    elif row.may_wait and is_endpoint_failure(final):
        status = NOT_RUN
    return ItemResult(
        number=row.number,
        run_id=row.run_id,
        input=json.loads(row.input),
        question=row.question,
        status=status,
        outcome=final,
        error=row.error,
        tool_calls=row.tool_calls or 0,
        cost_usd=row.cost_usd,
        seconds=row.duration_s,
        started_at=row.started_at,
    )


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
        taken_back = 0
        if any(row.may_wait for row in rows):
            chosen = (items.c.batch_id == batch_id, items.c.number.is_not(None), MAY_WAIT)
            bodies = connection.execute(select(runs.c.outcome).select_from(WITH_RUNS).where(*chosen)).scalars()
            taken_back = sum(is_endpoint_failure(outcome(body)) for body in bodies)
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

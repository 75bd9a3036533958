"""Read stored batches, their statuses and totals."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import cache
from typing import Any

from sqlalchemy import ColumnElement, Row, Select, and_, case, literal, select

from run_specialist.errors import RunNotFound
from run_specialist.store.batches import StoredBatch
from run_specialist.store.location import shown
from run_specialist.store.reader import OpenedStore, delete_runs
from run_specialist.store.rows import column_text, outcome
from run_specialist.store.schema import DEAD, RUNNING, WAITING
from run_specialist.store.selection import INTERRUPTED, ambiguous, fetched
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

# Items with their runs; those without a run have NULLs.
_WITH_RUNS = items.outerjoin(runs, runs.c.run_id == items.c.run_id)
OWNER = case((runs.c.status == RUNNING, runs.c.owner))
"""The process of a run that has not ended."""
# Status of an item joined with its run, as stored in the database; an interrupted run is still `running`.
_STORED_STATUS: ColumnElement[str] = case(
    (and_(runs.c.run_id.is_(None), items.c.state == DEAD), literal(DEAD)),
    (and_(runs.c.run_id.is_(None), items.c.error.is_not(None)), literal(FAILED)),
    (runs.c.run_id.is_(None), literal(NOT_RUN)),
    (and_(runs.c.status == RUNNING, items.c.state == DEAD), literal(DEAD)),
    else_=runs.c.status,
)
# Whether an item may have been taken back after its run failed; `is_endpoint_failure` decides.
_MAY_WAIT = and_(runs.c.status == FAILED, items.c.state == WAITING)


def is_endpoint_failure(outcome: Mapping[str, Any] | None) -> bool:
    """Return whether a run failed because of the endpoint: it will be resumed, and its item counts as not run."""
    return (outcome or {}).get("error_kind") in ENDPOINT_KINDS


LAST = "last"
"""Alias for the newest batch."""
ITEMS_AT_ONCE = 500
"""Number of items read per transaction; a longer transaction would keep the file from shrinking."""

_NEWEST_FIRST = (batches.c.created_at.desc(), batches.c.batch_id.desc())
_COLUMNS: tuple[ColumnElement[Any], ...] = (
    *(items.c[name] for name in ("batch_id", "number", "run_id")),
    _STORED_STATUS.label("status"),
    OWNER.label("owner"),
    _MAY_WAIT.label("may_wait"),
    *(runs.c[name] for name in ("tool_calls", "cost_usd", "started_at", "ended_at")),
    runs.c.duration_s.label("seconds"),
)
_ITEMS: Select[Any] = select(
    *_COLUMNS,
    items.c.input,
    items.c.question,
    items.c.error,
    case((runs.c.status != RUNNING, runs.c.outcome)).label("outcome"),
).select_from(_WITH_RUNS)
# Items without the outcomes that their status does not depend on.
_COUNTED: Select[Any] = select(*_COLUMNS, case((_MAY_WAIT, runs.c.outcome)).label("outcome")).select_from(_WITH_RUNS)

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
        is_dead = cache(self._is_dead)
        with self._snapshot() as connection:
            found = {batch_id: list[tuple[str, Row[Any]]]() for batch_id in batch_ids}
            for row in fetched(connection, _COUNTED, items.c.batch_id, batch_ids):
                found[row.batch_id].append((_status(row, is_dead), row))
        return {batch_id: _tally(rows) for batch_id, rows in found.items()}

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
            query = query.where(_STORED_STATUS.in_(FAILURES))
        last = 0
        while True:
            following = query.where(items.c.number > last).order_by(items.c.number, items.c.run_id)
            with self._snapshot() as connection:
                rows = connection.execute(following.limit(ITEMS_AT_ONCE)).all()
                found = [_item(row, is_dead) for row in rows]
            yield from (item for item in found if not failures or item.status in FAILURES)
            if len(rows) < ITEMS_AT_ONCE:
                return
            last = rows[-1].number

    def endpoint_failures(self, batch_id: str) -> set[str]:
        """Return the ids of a batch's runs that failed because of the endpoint, which a repeated call resumes."""
        failed = (items.c.batch_id == column_text(batch_id), runs.c.status == FAILED)
        with self._snapshot() as connection:
            rows = connection.execute(select(runs.c.run_id, runs.c.outcome).select_from(_WITH_RUNS).where(*failed))
            return {row.run_id for row in rows if is_endpoint_failure(outcome(row.outcome))}

    def delete(self, batch_id: str) -> None:
        """Delete a batch with its items and their runs, all or nothing.

        Raises UsageError if one of the runs is still running, StoreUnusable if the store cannot be written.
        """
        self._engine.dispose()
        delete_runs(self.url, (), [batch_id])


def _batch(row: Row[Any]) -> StoredBatch:
    return StoredBatch(**{**row._asdict(), "frozen": json.loads(row.frozen)})


def _status(row: Row[Any], is_dead: Callable[[str], bool]) -> str:
    """Return the status of an item."""
    if row.status == RUNNING and is_dead(row.owner):
        return INTERRUPTED
    return NOT_RUN if row.may_wait and is_endpoint_failure(outcome(row.outcome)) else str(row.status)


def _item(row: Row[Any], is_dead: Callable[[str], bool]) -> ItemResult:
    values = {one.name: getattr(row, one.name) for one in fields(ItemResult)}
    read = {"input": json.loads(row.input), "status": _status(row, is_dead), "outcome": outcome(row.outcome)}
    return ItemResult(**values | read | {"tool_calls": row.tool_calls or 0})


def _tally(rows: Sequence[tuple[str, Row[Any]]]) -> BatchTotals:
    """Return the tally of the items of one batch, each with its status."""
    counts = Counter(status for status, row in rows if row.number is not None)
    begun = [row for _, row in rows if row.started_at is not None]
    costs = [row.cost_usd for row in begun if row.cost_usd is not None]
    return BatchTotals(
        counts={status: counts[status] for status in ITEM_STATUSES if counts[status]},
        earlier=len(rows) - counts.total(),
        runs=len(begun),
        cost_usd=sum(costs),
        unknown_costs=len(begun) - len(costs),
        tool_calls=sum(row.tool_calls for row in begun),
        worked_s=sum(row.seconds or 0.0 for row in begun),
        started_at=min((row.started_at for row in begun), default=None),
        ended_at=max((row.ended_at for row in begun if row.ended_at is not None), default=None),
    )

"""The status of an item as SQL for either database: that of its run, otherwise its own."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import ColumnElement, and_, case, literal

from run_specialist.store.batch_statements import DEAD, WAITING
from run_specialist.store.selection import INTERRUPTED
from run_specialist.store.tables import items, runs
from run_specialist.store.to_rows import RUNNING

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

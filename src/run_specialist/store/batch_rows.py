"""Find which runs belong to which batches, and delete batches."""

from collections.abc import Sequence

from sqlalchemy import Connection, delete, exists, select

from run_specialist.store.batch_statements import OPEN, PAUSED
from run_specialist.store.descendants import portions
from run_specialist.store.tables import batches, gates, items, runs


def runs_of(connection: Connection, batch_ids: Sequence[str]) -> list[str]:
    """Return the ids of the stored runs of some batches, including earlier calls."""
    joined = select(items.c.run_id).join(runs, runs.c.run_id == items.c.run_id)
    chosen = (joined.where(items.c.batch_id.in_(part)) for part in portions(batch_ids))
    return [run_id for query in chosen for run_id in connection.execute(query).scalars()]


def batches_of(connection: Connection, run_ids: Sequence[str]) -> list[str]:
    """Return the ids of the batches that contain any of these runs."""
    chosen = (select(items.c.batch_id).where(items.c.run_id.in_(part)).distinct() for part in portions(run_ids))
    return list(dict.fromkeys(batch_id for query in chosen for batch_id in connection.execute(query).scalars()))


def without_runs(connection: Connection, batch_ids: Sequence[str]) -> list[str]:
    """Return those batches that have no items, or have no runs and are not in progress."""
    found: list[str] = []
    has_items = exists().where(items.c.batch_id == batches.c.batch_id)
    has_runs = exists().where(items.c.batch_id == batches.c.batch_id, runs.c.run_id == items.c.run_id)
    at_work = batches.c.state.in_([OPEN, PAUSED])
    for part in portions(batch_ids):
        empty = select(batches.c.batch_id).where(batches.c.batch_id.in_(part), ~has_items | (~at_work & ~has_runs))
        found += connection.execute(empty).scalars().all()
    return found


def delete_batches(connection: Connection, batch_ids: Sequence[str]) -> None:
    """Delete batches with their items and gates, but not their runs."""
    for part in portions(batch_ids):
        for table in (items, gates, batches):
            connection.execute(delete(table).where(table.c.batch_id.in_(part)))

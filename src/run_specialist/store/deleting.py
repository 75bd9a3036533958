"""Deleting runs with all that was kept of them, and giving the room back to the disk."""

import time
from collections.abc import Sequence
from contextlib import closing, suppress

from sqlalchemy import Connection, Engine, bindparam, delete, select
from sqlalchemy.exc import DBAPIError

from run_specialist.errors import UsageError
from run_specialist.store.descendants import portions, with_descendants
from run_specialist.store.failures import in_one_line
from run_specialist.store.keeping import RUNNING
from run_specialist.store.opening import open_engine
from run_specialist.store.owners import GRACE, describe, is_alive, may_be_cut
from run_specialist.store.place import file_of
from run_specialist.store.schema import metadata, runs


def delete_runs(url: str, ids: Sequence[str]) -> None:
    """Delete runs and what they asked, all or none; see `Store.delete`."""
    engine = open_engine(url)
    try:
        with in_one_line(url), engine.begin() as connection:
            ids = with_descendants(connection, ids)
            _require_over(connection, url, ids)
            gone = [{"gone": run_id} for run_id in ids]
            for table in metadata.tables.values():
                connection.execute(delete(table).where(table.c.run_id == bindparam("gone")), gone)
        if file_of(url):
            # Others may be at work; then the room is used again instead of given back.
            with suppress(DBAPIError):
                _shrink(engine)
    finally:
        engine.dispose()


def _require_over(connection: Connection, url: str, ids: Sequence[str]) -> None:
    unfinished = select(runs.c.run_id, runs.c.owner).where(runs.c.status == RUNNING)
    chosen = [unfinished.where(runs.c.run_id.in_(part)).with_for_update() for part in portions(ids)]
    found = [row for rows in chosen for row in connection.execute(rows).all()]
    for look in range(2 if found and may_be_cut(url) else 1):
        time.sleep(look * GRACE)
        for run_id, owner in found:
            if is_alive(url, owner):
                at_work = f"{run_id} is still at work: {describe(url, owner)}"
                raise UsageError(f"{at_work}; stop it first; nothing was deleted")


def _shrink(engine: Engine) -> None:
    with closing(engine.raw_connection()) as raw, closing(raw.cursor()) as cursor:
        # A script is stepped to its end; one statement alone would give back one page.
        cursor.executescript("pragma incremental_vacuum; pragma wal_checkpoint(truncate)")

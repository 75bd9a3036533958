"""Delete runs with all their stored data, and free the disk space."""

import sqlite3
import time
from collections.abc import Collection, Sequence
from contextlib import closing, suppress
from pathlib import Path

from sqlalchemy import Connection, Engine, bindparam, delete, select
from sqlalchemy.exc import DBAPIError

from run_specialist.errors import StoreUnusable, UsageError
from run_specialist.store.batch_rows import batches_of, delete_batches, runs_of, without_runs
from run_specialist.store.descendants import portions, with_descendants
from run_specialist.store.failures import readable_errors
from run_specialist.store.location import file_of
from run_specialist.store.opening import open_engine
from run_specialist.store.owners import GRACE, describe, is_alive, may_reconnect
from run_specialist.store.sqlite_file import ALONE, connect
from run_specialist.store.tables import metadata, runs
from run_specialist.store.to_rows import RUNNING

NEEDS_SPACE = (
    "free disk space, or delete all runs with --all --all-projects, which needs none if no other process uses the store"
)


def delete_runs(url: str, ids: Sequence[str]) -> None:
    """Delete runs and their descendants, all or none; raises the same errors as `Store.delete`."""
    try:
        _delete(url, ids)
    except StoreUnusable as error:
        path = file_of(url)
        # A deletion needs disk space for the WAL.
        if path is None or "disk is full" not in str(error):
            raise
        if not _remove(path, url, set(ids)):
            raise StoreUnusable(f"{error}; {NEEDS_SPACE}") from None


def delete_whole_batches(url: str, batch_ids: Sequence[str]) -> None:
    """Delete batches with their items and runs, all or none; raises the same errors as `Store.delete`."""
    _delete(url, (), batch_ids)


def _delete(url: str, ids: Sequence[str], of_batches: Sequence[str] = ()) -> None:
    engine = open_engine(url)
    try:
        with readable_errors(url), engine.begin() as connection:
            ids = with_descendants(connection, [*ids, *runs_of(connection, of_batches)])
            _require_finished(connection, url, ids)
            touched = batches_of(connection, ids)
            deleted = [{"deleted": run_id} for run_id in ids]
            for table in metadata.tables.values() if deleted else ():
                if "run_id" in table.c:
                    connection.execute(delete(table).where(table.c.run_id == bindparam("deleted")), deleted)
            delete_batches(connection, of_batches)
            delete_batches(connection, without_runs(connection, touched))
        if file_of(url):
            # Fails while other processes use the file; SQLite then reuses the space instead of returning it.
            with suppress(DBAPIError):
                _shrink(engine)
    finally:
        engine.dispose()


def _remove(path: Path, url: str, ids: Collection[str]) -> bool:
    """Remove the file of a store if all its runs are selected for deletion, which needs no disk space.

    Return False if it contains other runs, or if another process uses it.
    """
    path = path.resolve()
    try:
        # The connection stays open until the files are removed, so that no process writes to an unlinked file.
        with closing(connect(path, ALONE)) as alone:
            found = alone.execute("select run_id, status, owner from runs").fetchall()
            if any(
                run_id not in ids or (status == RUNNING and is_alive(url, owner)) for run_id, status, owner in found
            ):
                return False
            # The database first: a WAL without its database has no effect.
            for suffix in ("", "-wal", "-shm"):
                path.with_name(f"{path.name}{suffix}").unlink(missing_ok=True)
    except sqlite3.Error:
        return False
    return True


def _require_finished(connection: Connection, url: str, ids: Sequence[str]) -> None:
    unfinished = select(runs.c.run_id, runs.c.owner).where(runs.c.status == RUNNING)
    chosen = [unfinished.where(runs.c.run_id.in_(part)).with_for_update() for part in portions(ids)]
    found = [row for rows in chosen for row in connection.execute(rows).all()]
    for attempt in range(2 if found and may_reconnect(url) else 1):
        time.sleep(attempt * GRACE)
        for run_id, owner in found:
            if is_alive(url, owner):
                running = f"{run_id} is still running: {describe(url, owner)}"
                raise UsageError(f"{running}; stop it first; nothing was deleted")


def _shrink(engine: Engine) -> None:
    with closing(engine.raw_connection()) as raw, closing(raw.cursor()) as cursor:
        # A script runs each statement to completion; `execute` would free only one page.
        cursor.executescript("pragma incremental_vacuum; pragma wal_checkpoint(truncate)")

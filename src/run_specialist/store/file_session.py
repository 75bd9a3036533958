"""The writer's session on an SQLite file, without SQLAlchemy, so that it starts fast."""

import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from run_specialist.store.base import Session, StoreFailure, StoreOutage
from run_specialist.store.sqlite_file import transaction
from run_specialist.store.statements import Statements, Values

PAUSE = 0.1
"""Minimum time between two syncs; commits in between are not synced to disk [s]."""
PATIENCE = 10.0
"""How long to retry if the disk is full or the file is locked [s]."""

_TEMPORARY = ("SQLITE_BUSY", "SQLITE_FULL", "SQLITE_IOERR", "SQLITE_CANTOPEN")
"""Prefixes of the error codes for a locked file or a full disk."""
_ROW_ERRORS = (sqlite3.DataError, sqlite3.IntegrityError, sqlite3.ProgrammingError, sqlite3.InterfaceError)
"""Errors caused by the values of a row."""


class FileSession(Session):
    """A session on a connection of sqlite3."""

    statements = Statements("?")
    patience = PATIENCE

    def __init__(self, raw: sqlite3.Connection, path: Path) -> None:
        """Use a connection in autocommit mode with `synchronous = full` to the file at `path`."""
        self.raw = raw
        """The connection."""
        self._wal = path.with_name(f"{path.name}-wal")
        self._commits_sync = True
        self._is_synced = True
        self._last_sync = -PAUSE
        self._sync_failed = False

    @contextmanager
    def transaction(self, *, lasting: bool = False) -> Iterator[None]:
        """Run the block in a transaction; a commit survives a kill, and a power failure once it is synced."""
        raw = self.raw
        try:
            self._let_commits_sync(lasting or self._sync_failed)
            with transaction(raw, write=True):
                yield
        except _ROW_ERRORS:
            raise
        except sqlite3.Error as error:
            is_temporary = getattr(error, "sqlite_errorname", "").startswith(_TEMPORARY)
            raise (StoreOutage if is_temporary else StoreFailure)(str(error).partition("\n")[0]) from error
        self._is_synced = False
        if self._commits_sync:
            self._was_synced()

    def _let_commits_sync(self, full: bool) -> None:  # noqa: FBT001 - its only argument
        if full is not self._commits_sync:
            self.raw.execute(f"pragma synchronous = {'full' if full else 'normal'}")
            self._commits_sync = full

    def sync(self) -> None:
        """Sync the commits so far, unless the last sync was less than `PAUSE` ago."""
        if self._is_synced or time.monotonic() - self._last_sync < PAUSE:
            return
        try:
            # SQLite holds no lock on this file, which closing it would release.
            wal = os.open(self._wal, os.O_RDWR)
            try:
                os.fsync(wal)
            finally:
                os.close(wal)
        except OSError:
            # The next commit syncs itself, and reports a failing disk.
            self._sync_failed = True
        else:
            self._was_synced()

    def _was_synced(self) -> None:
        self._is_synced, self._sync_failed, self._last_sync = True, False, time.monotonic()

    def write(self, statement: str, rows: Sequence[Values]) -> int:
        """Execute a statement once per row of values; return the number of rows affected."""
        return self.raw.executemany(statement, rows).rowcount

    def read(self, statement: str, values: Values) -> list[Values]:
        """Return the rows of a query."""
        return self.raw.execute(statement, values).fetchall()

    def close(self) -> None:
        """Close the connection; SQLite checkpoints the WAL if no other connection is open."""
        self.raw.close()

"""The writer's session on an SQLite file, without SQLAlchemy, so that it starts fast."""

import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from run_specialist.store.base import Session, StoreFailure, StoreOutage
from run_specialist.store.sqlite_file import transaction
from run_specialist.store.statements import Statements, Values

PAUSE = 0.1
"""Minimum time between two synced commits; commits in between are not synced to disk [s]."""
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

    def __init__(self, raw: sqlite3.Connection) -> None:
        """Use a connection in autocommit mode with `synchronous = full`."""
        self.raw = raw
        """The connection."""
        self._syncs = True
        self._synced = -PAUSE

    @contextmanager
    def transaction(self, *, lasting: bool = False) -> Iterator[None]:
        """Run the block in a transaction; a commit survives a kill, and a power failure if it was synced."""
        raw = self.raw
        try:
            self._sync(lasting or time.monotonic() - self._synced >= PAUSE)
            with transaction(raw, write=True):
                yield
        except _ROW_ERRORS:
            raise
        except sqlite3.Error as error:
            is_temporary = getattr(error, "sqlite_errorname", "").startswith(_TEMPORARY)
            raise (StoreOutage if is_temporary else StoreFailure)(str(error).partition("\n")[0]) from error
        if self._syncs:
            self._synced = time.monotonic()

    def _sync(self, now: bool) -> None:  # noqa: FBT001 - its only argument
        if now is not self._syncs:
            self.raw.execute(f"pragma synchronous = {'full' if now else 'normal'}")
            self._syncs = now

    def write(self, statement: str, rows: Sequence[Values]) -> int:
        """Execute a statement once per row of values; return the number of rows affected."""
        return self.raw.executemany(statement, rows).rowcount

    def read(self, statement: str, values: Values) -> list[Values]:
        """Return the rows of a query."""
        return self.raw.execute(statement, values).fetchall()

    def close(self) -> None:
        """Close the connection; SQLite checkpoints the WAL if no other connection is open."""
        self.raw.close()

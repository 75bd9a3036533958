"""The writer's connection to an SQLite file, by the driver alone: its import is free, and so is its start."""

import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from run_specialist.store.base import Session, StoreAway, StoreBroken
from run_specialist.store.sqlite_file import transaction
from run_specialist.store.statements import Statements, Values

PAUSE = 0.1
"""A commit so soon after one that was synced waits for no disk: many at once cost no more syncs than one by one [s]."""
PATIENCE = 10.0
"""The longest that a disk which is full, or a file that is locked, is tried again [s]."""

_PASSING = ("SQLITE_BUSY", "SQLITE_FULL", "SQLITE_IOERR", "SQLITE_CANTOPEN")
"""Another process holds the lock, or the disk is full: SQLite says so in several ways."""
_ROWS = (sqlite3.DataError, sqlite3.IntegrityError, sqlite3.ProgrammingError, sqlite3.InterfaceError)
"""What is the fault of a row."""


class FileSession(Session):
    """A connection of the driver; see `Session`."""

    statements = Statements("?")
    patience = PATIENCE

    def __init__(self, raw: sqlite3.Connection) -> None:
        """Take one that syncs each commit and begins no transactions of its own."""
        self.raw = raw
        """The connection."""
        self._syncs = True
        self._synced = -PAUSE

    @contextmanager
    def transaction(self, *, lasting: bool = False) -> Iterator[None]:
        """Commit all that is done in it, or nothing; no kill undoes it, and a power failure not what is synced."""
        raw = self.raw
        try:
            self._sync(lasting or time.monotonic() - self._synced >= PAUSE)
            with transaction(raw, write=True):
                yield
        except _ROWS:
            raise
        except sqlite3.Error as error:
            passes = getattr(error, "sqlite_errorname", "").startswith(_PASSING)
            raise (StoreAway if passes else StoreBroken)(str(error).partition("\n")[0]) from error
        if self._syncs:
            self._synced = time.monotonic()

    def _sync(self, now: bool) -> None:  # noqa: FBT001 - what it decides
        if now is not self._syncs:
            self.raw.execute(f"pragma synchronous = {'full' if now else 'normal'}")
            self._syncs = now

    def write(self, statement: str, rows: Sequence[Values]) -> int:
        """Run a statement for each of some rows, and return how many rows it hit."""
        return self.raw.executemany(statement, rows).rowcount

    def read(self, statement: str, values: Values) -> list[Values]:
        """Return what a query finds."""
        return self.raw.execute(statement, values).fetchall()

    def close(self) -> None:
        """Close it; what it has written is moved into the file if nobody else has that open."""
        self.raw.close()

"""A store in an SQLite file: open it, write to it, keep it private; open any store by its URL."""

import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from stat import S_IMODE, S_ISDIR, S_ISREG
from typing import TYPE_CHECKING, Any

from run_specialist.errors import StoreMissing, StoreUnusable, errors_as, on_error
from run_specialist.store.base import Session, StoreFailure, StoreOutage
from run_specialist.store.location import APPLICATION_ID, ELSEWHERE, FOLDER, VERSION, file_of, newer_version_error
from run_specialist.store.rows import Row
from run_specialist.store.schema import sqlite_statements

if TYPE_CHECKING:
    from sqlalchemy import Engine


def open_session(url: str) -> Session:
    """Open a store for writing; create it if it is missing, or upgrade it.

    Raises StoreUnusable with a one-line message; a database of another program or a newer version is not modified.
    """
    path = file_of(url)
    if path is not None:
        return FileSession(open_file(path, write=True), path)
    from run_specialist.store.postgresql import ServerSession  # noqa: PLC0415 - a database library

    return ServerSession(open_engine(url))


PAUSE = 0.1
"""Minimum time between two syncs; commits in between are not synced to disk [s]."""
PATIENCE = 10.0
"""How long to retry if the disk is full or the file is locked [s]."""

# Prefixes of the error codes for a locked file or a full disk.
_TEMPORARY = ("SQLITE_BUSY", "SQLITE_FULL", "SQLITE_IOERR", "SQLITE_CANTOPEN")
# Errors caused by the values of a row.
_ROW_ERRORS = (sqlite3.DataError, sqlite3.IntegrityError, sqlite3.ProgrammingError, sqlite3.InterfaceError)


class FileSession(Session):
    """A session on a connection of sqlite3."""

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
            full = lasting or self._sync_failed
            if full is not self._commits_sync:
                raw.execute(f"pragma synchronous = {'full' if full else 'normal'}")
                self._commits_sync = full
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

    def sync(self) -> None:
        """Sync the commits so far, unless the last sync was less than `PAUSE` ago."""
        if self._is_synced or time.monotonic() - self._last_sync < PAUSE:
            return
        try:
            # SQLite holds no lock on this file, which closing it would release.
            with self._wal.open("r+b", buffering=0) as wal:
                os.fsync(wal.fileno())
        except OSError:
            # The next commit syncs itself, and reports a failing disk.
            self._sync_failed = True
        else:
            self._was_synced()

    def _was_synced(self) -> None:
        self._is_synced, self._sync_failed, self._last_sync = True, False, time.monotonic()

    def write(self, statement: str, rows: Sequence[Row]) -> int:
        """Execute a statement once per row, if there are any; return the number of rows affected."""
        return self.raw.executemany(statement, rows).rowcount if rows else 0

    def read(self, statement: str, **values: object) -> list[tuple[Any, ...]]:
        """Return the rows of a query with these parameters."""
        return self.raw.execute(statement, values).fetchall()

    def close(self) -> None:
        """Close the connection; SQLite checkpoints the WAL if no other connection is open."""
        self.raw.close()


WAIT = 10
"""Timeout for a lock that another process holds [s]."""

ALONE = "alone"
"""The mode of `connect` that locks out all other connections; reading then needs no disk space."""

# Prefix of the error codes for a failure to create the shared memory file, e.g. on a full disk.
_NO_SPACE = "SQLITE_IOERR_SHM"
_REASONS = {
    "SQLITE_NOTADB": "is not an SQLite database",
    "SQLITE_CORRUPT": "is damaged",
    "SQLITE_FULL": "cannot be written: the disk is full",
    _NO_SPACE: "cannot be opened: the disk is full",
    "SQLITE_BUSY": f"has been locked by another program for {WAIT} seconds",
}


def open_file(path: Path, *, write: bool) -> sqlite3.Connection:
    """Open the store in a file, with the arguments and errors of `opening.open_engine`."""
    with _readable_errors(path):
        version = _inspect(path)
        if not version and not write:
            raise StoreMissing(f"there is no store at {path} yet; the first run creates it")
        if write or version < VERSION:
            # SQLite also creates files next to the database.
            for needed in (path, path.parent):
                if needed.exists() and not os.access(needed, os.W_OK):
                    raise StoreUnusable(f"{path} cannot be written: no write permission on {needed}; {ELSEWHERE}")
        if version != VERSION:
            _create_or_upgrade(path)
        raw = connect(path, "rw" if write else reading(path))
        with on_error(raw.close):
            with transaction(raw, write=write):
                _version(path, raw)
            if write:
                # Fails immediately while another process has the file open in another journal mode; a later open sets
                # it.
                with suppress(sqlite3.OperationalError):
                    raw.execute("pragma journal_mode = wal")
        return raw


def connect(path: Path, mode: str) -> sqlite3.Connection:
    """Connect to a file in autocommit mode, in which sqlite3 starts no implicit transactions.

    mode: `ro`, `rw`, or `ALONE`.
    """
    uri = f"{path.as_uri()}?mode={'rw' if mode == ALONE else mode}"
    raw = sqlite3.connect(uri, uri=True, timeout=WAIT, isolation_level=None, check_same_thread=False)
    # An open connection would keep its shared lock.
    with on_error(raw.close):
        if mode == ALONE:
            raw.execute("pragma locking_mode = exclusive")
        raw.execute("pragma synchronous = full")
    return raw


def reading(path: Path) -> str:
    """Return the mode for reading: `ro`, or another if SQLite cannot write its WAL and shared memory files."""
    if not os.access(path.parent, os.W_OK) and not path.with_name(f"{path.name}-wal").exists():
        return "ro&immutable=1"
    try:
        with closing(connect(path, "ro")) as raw:
            raw.execute("select 1 from sqlite_schema").fetchone()
    except sqlite3.OperationalError as error:
        return ALONE if error.sqlite_errorname.startswith(_NO_SPACE) else "ro"
    return "ro"


def _inspect(path: Path) -> int:
    """Return the version of the tables; 0 without any.

    Reads the file header: opening the file with SQLite would create files and checkpoint a dead process's WAL.

    Raises StoreUnusable for a file of another program or of a newer version.
    """
    try:
        kind = path.stat().st_mode
    except FileNotFoundError:
        return 0
    if S_ISDIR(kind):
        raise StoreUnusable(f"{path} is a folder; use a file in it, e.g. {path / 'runs.db'}")
    if not S_ISREG(kind):
        raise StoreUnusable(f"{path} is not a regular file; {ELSEWHERE}")
    with path.open("rb") as file:
        header = file.read(100)
    if not header:
        return 0
    if len(header) < 100 or not header.startswith(b"SQLite format 3\0"):  # noqa: PLR2004 - SQLite's file format
        raise StoreUnusable(f"{path} {_REASONS['SQLITE_NOTADB']}; {ELSEWHERE}")
    version, application_id = int.from_bytes(header[60:64]), int.from_bytes(header[68:72])
    if not version and not application_id and not int.from_bytes(header[40:44]):
        # No table was created yet: the creating process has not finished, or it died.
        return 0
    _require_compatible(path, application_id, version)
    # A rollback journal exists only before the first WAL; until it is applied, the header may be wrong.
    if path.with_name(f"{path.name}-journal").exists():
        return 0
    return version


def _require_compatible(path: Path, application_id: int, version: int) -> None:
    if application_id != APPLICATION_ID:
        raise StoreUnusable(f"{path} is the database of another program; {ELSEWHERE}")
    if version > VERSION:
        raise newer_version_error(str(path), version)


def _create_or_upgrade(path: Path) -> None:
    """Create the tables in a file with mode 0600, or upgrade them, unless another process was faster."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.touch(mode=0o600)
    with closing(connect(path, "rw")) as raw:
        # Takes effect only before the first table exists and outside a transaction.
        raw.execute("pragma auto_vacuum = incremental")
        with transaction(raw, write=True):
            if not raw.execute("select count(*) from sqlite_schema").fetchone()[0]:
                for statement in sqlite_statements():
                    raw.execute(statement)
                raw.execute(f"pragma application_id = {APPLICATION_ID}")
                raw.execute(f"pragma user_version = {VERSION}")
        if _version(path, raw) < VERSION:
            from run_specialist.store.tables import upgrade_file  # noqa: PLC0415 - a database library

            upgrade_file(lambda: connect(path, "rw"))
        # Until the checkpoint, the header that `_inspect` reads may be outdated.
        raw.execute("pragma wal_checkpoint(truncate)")


@contextmanager
def transaction(raw: sqlite3.Connection, *, write: bool) -> Iterator[None]:
    """Run the block in a transaction, which is rolled back if the block raises.

    write: acquire the write lock at the start.
    """
    with raw:
        raw.execute("begin immediate" if write else "begin")
        yield


def _version(path: Path, raw: sqlite3.Connection) -> int:
    """Return the version of the tables including the WAL; the header may be outdated.

    Raises StoreUnusable for a file of another program or of a newer version.
    """
    application_id, version = (
        int(raw.execute(f"pragma {name}").fetchone()[0]) for name in ("application_id", "user_version")
    )
    _require_compatible(path, application_id, version)
    return version


@contextmanager
def _readable_errors(path: Path) -> Iterator[None]:
    """Convert errors of the operating system and of SQLite to StoreUnusable with a one-line message."""
    try:
        with errors_as(StoreUnusable, f"{path} cannot be opened", OSError, ValueError, advice=ELSEWHERE):
            yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorname", "")
        known = next((reason for name, reason in _REASONS.items() if code.startswith(name)), None)
        raise StoreUnusable(f"{path} {known or f'cannot be opened: {error}'}; {ELSEWHERE}") from error


def open_engine(url: str, *, write: bool = True) -> "Engine":
    """Return an engine for a store, set up for the transactions and the schema of its database.

    write: if False, a missing store is not created, and a transaction sees one snapshot from its first query on. An
    older store is upgraded in both cases.
    Raises StoreUnusable with a one-line message; a database of another program or a newer version is not modified.
    """
    from run_specialist.store.location import NONE, shown  # noqa: PLC0415 - a database library
    from run_specialist.store.postgresql import SCHEMES, open_database  # noqa: PLC0415 - a database library
    from run_specialist.store.tables import file_engine  # noqa: PLC0415 - a database library

    path = file_of(url)
    if path is not None:
        open_file(path, write=write).close()
        mode = "rw" if write else reading(path)
        return file_engine(lambda: connect(path, mode), "begin immediate" if write else "begin")
    if url.startswith(SCHEMES):
        return open_database(url, write=write)
    if url == NONE:
        raise StoreUnusable(f"runs are not stored (the store is `{NONE}`); choose a store with `store`")
    raise StoreUnusable(
        f"{shown(url)} is not a valid store; use a path, sqlite:///FILE, or postgresql://USER@HOST/DATABASE"
    )


OTHERS = 0o077
"""Permission bits of group and others."""
# Suffixes of the files and folders that accompany a store.
_SUFFIXES = ("-wal", "-shm", "-journal", ".owners")


def make_private(store: Path) -> None:
    """Remove group and other permissions on a store, its companion files, and its folder if that is the default one.

    Symlinks and files of other users stay unchanged. Never raises.
    """
    # Any other folder, such as a home directory or `/dev`, contains more than a store.
    folder = [store.parent] if store.parent.name == FOLDER else []
    for path in (*folder, store, *(store.with_name(f"{store.name}{end}") for end in _SUFFIXES)):
        with suppress(OSError):
            found = path.lstat()
            is_ours = found.st_uid == os.geteuid() and (S_ISREG(found.st_mode) or S_ISDIR(found.st_mode))
            if is_ours and found.st_mode & OTHERS:
                path.chmod(S_IMODE(found.st_mode) & ~OTHERS)

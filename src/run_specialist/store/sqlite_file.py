"""Inspect, create, upgrade and open a store in an SQLite file."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from enum import Enum, auto
from pathlib import Path
from stat import S_ISDIR, S_ISREG

from run_specialist.errors import StoreMissing, StoreUnusable
from run_specialist.store.identity import APPLICATION_ID, VERSION
from run_specialist.store.location import ELSEWHERE, newer_version_error
from run_specialist.store.schema import sqlite_statements

WAIT = 10
"""Timeout for a lock that another process holds [s]."""

ALONE = "alone"
"""The mode of `connect` that locks out all other connections; reading then needs no disk space."""

_NO_SPACE = "SQLITE_IOERR_SHM"
"""Prefix of the error codes for a failure to create the shared memory file, e.g. on a full disk."""
_REASONS = {
    "SQLITE_NOTADB": "is not an SQLite database",
    "SQLITE_CORRUPT": "is damaged",
    "SQLITE_FULL": "cannot be written: the disk is full",
    _NO_SPACE: "cannot be opened: the disk is full",
    "SQLITE_BUSY": f"has been locked by another program for {WAIT} seconds",
}


class _State(Enum):
    EMPTY = auto()
    OLDER = auto()
    CURRENT = auto()


def open_file(path: Path, *, write: bool) -> sqlite3.Connection:
    """Open the store in a file, with the arguments and errors of `opening.open_engine`."""
    with _readable_errors(path):
        state = _inspect(path)
        if state is _State.EMPTY and not write:
            raise StoreMissing(f"there is no store at {path} yet; the first run creates it")
        if write or state is _State.OLDER:
            _require_writable(path)
        if state is not _State.CURRENT:
            _create_or_upgrade(path)
        raw = connect(path, "rw" if write else reading(path))
        try:
            with transaction(raw, write=write):
                _version(path, raw)
            if write:
                # Fails immediately while another process has the file open in another journal mode; a later open sets
                # it.
                with suppress(sqlite3.OperationalError):
                    raw.execute("pragma journal_mode = wal")
        except BaseException:
            raw.close()
            raise
        return raw


def connect(path: Path, mode: str) -> sqlite3.Connection:
    """Connect to a file in autocommit mode, in which sqlite3 starts no implicit transactions.

    mode: `ro`, `rw`, or `ALONE`.
    """
    uri = f"{path.as_uri()}?mode={'rw' if mode == ALONE else mode}"
    raw = sqlite3.connect(uri, uri=True, timeout=WAIT, isolation_level=None, check_same_thread=False)
    try:
        if mode == ALONE:
            raw.execute("pragma locking_mode = exclusive")
        raw.execute("pragma synchronous = full")
    except BaseException:
        # An open connection would keep its shared lock.
        raw.close()
        raise
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


def _inspect(path: Path) -> _State:
    """Read the file header; opening the file with SQLite would create files and checkpoint a dead process's WAL.

    Raises StoreUnusable for a file of another program or of a newer version.
    """
    try:
        kind = path.stat().st_mode
    except FileNotFoundError:
        return _State.EMPTY
    if S_ISDIR(kind):
        raise StoreUnusable(f"{path} is a folder; use a file in it, e.g. {path / 'runs.db'}")
    if not S_ISREG(kind):
        raise StoreUnusable(f"{path} is not a regular file; {ELSEWHERE}")
    with path.open("rb") as file:
        header = file.read(100)
    if not header:
        return _State.EMPTY
    if len(header) < 100 or not header.startswith(b"SQLite format 3\0"):  # noqa: PLR2004 - SQLite's file format
        raise StoreUnusable(f"{path} {_REASONS['SQLITE_NOTADB']}; {ELSEWHERE}")
    version, application_id = int.from_bytes(header[60:64]), int.from_bytes(header[68:72])
    if not version and not application_id and not int.from_bytes(header[40:44]):
        # No table was created yet: the creating process has not finished, or it died.
        return _State.EMPTY
    _require_compatible(path, application_id, version)
    # A rollback journal exists only before the first WAL; until it is applied, the header may be wrong.
    if path.with_name(f"{path.name}-journal").exists():
        return _State.EMPTY
    return _State.CURRENT if version == VERSION else _State.OLDER


def _require_compatible(path: Path, application_id: int, version: int) -> None:
    if application_id != APPLICATION_ID:
        raise StoreUnusable(f"{path} is the database of another program; {ELSEWHERE}")
    if version > VERSION:
        raise newer_version_error(str(path), version)


def _require_writable(path: Path) -> None:
    # SQLite also creates files next to the database.
    for needed in (path, path.parent):
        if needed.exists() and not os.access(needed, os.W_OK):
            raise StoreUnusable(f"{path} cannot be written: no write permission on {needed}; {ELSEWHERE}")


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
            from run_specialist.store.versions import upgrade_file  # noqa: PLC0415 - a database library

            upgrade_file(lambda: connect(path, "rw"))
        # Until the checkpoint, the header that `_inspect` reads may be outdated.
        raw.execute("pragma wal_checkpoint(truncate)")


@contextmanager
def transaction(raw: sqlite3.Connection, *, write: bool) -> Iterator[None]:
    """Run the block in a transaction, which is rolled back if the block raises.

    write: acquire the write lock at the start.
    """
    raw.execute("begin immediate" if write else "begin")
    try:
        yield
        raw.execute("commit")
    finally:
        if raw.in_transaction:
            raw.execute("rollback")


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
        yield
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise StoreUnusable(f"{path} cannot be opened: {reason}; {ELSEWHERE}") from error
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorname", "")
        known = next((reason for name, reason in _REASONS.items() if code.startswith(name)), None)
        raise StoreUnusable(f"{path} {known or f'cannot be opened: {error}'}; {ELSEWHERE}") from error

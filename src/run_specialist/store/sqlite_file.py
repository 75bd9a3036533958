"""A store in an SQLite file: looked at before it is touched, made, brought up to date, opened."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from enum import Enum, auto
from pathlib import Path
from stat import S_ISDIR, S_ISREG

from run_specialist.errors import StoreMissing, StoreUnusable
from run_specialist.store.identity import APPLICATION_ID, VERSION
from run_specialist.store.location import ELSEWHERE, newer
from run_specialist.store.schema import sqlite_statements

WAIT = 10
"""For a lock that another process holds [s]."""

ALONE = "alone"
"""A mode of `connect`: keeps all others out, and needs no room on the disk to read."""

_NO_ROOM = "SQLITE_IOERR_SHM"
"""Where the names of the codes begin with which SQLite says that it has no room to share a file with others."""
_REASONS = {
    "SQLITE_NOTADB": "is not an SQLite database",
    "SQLITE_CORRUPT": "is damaged",
    "SQLITE_FULL": "cannot be written, the disk is full",
    _NO_ROOM: "cannot be opened, the disk is full",
    "SQLITE_BUSY": f"has been locked by another program for {WAIT} seconds",
}


class _Found(Enum):
    NOTHING = auto()
    OLDER = auto()
    CURRENT = auto()


def open_file(path: Path, *, write: bool) -> sqlite3.Connection:
    """Open the store in a file; see `opening.open_engine`."""
    with _told(path):
        found = _look(path)
        if found is _Found.NOTHING and not write:
            raise StoreMissing(f"there is no store at {path} yet; a run makes it")
        if write or found is _Found.OLDER:
            _require_writable(path)
        if found is not _Found.CURRENT:
            _settle(path)
        raw = connect(path, "rw" if write else reading(path))
        try:
            with transaction(raw, write=write):
                _version(path, raw)
            if write:
                # Refused at once while another process uses a file that is not in this mode yet; the next one does it.
                with suppress(sqlite3.OperationalError):
                    raw.execute("pragma journal_mode = wal")
        except BaseException:
            raw.close()
            raise
        return raw


def connect(path: Path, mode: str) -> sqlite3.Connection:
    """Connect to a file; without an isolation level sqlite3 begins no transactions of its own.

    mode: `ro`, `rw`, or `ALONE`.
    """
    uri = f"{path.as_uri()}?mode={'rw' if mode == ALONE else mode}"
    raw = sqlite3.connect(uri, uri=True, timeout=WAIT, isolation_level=None, check_same_thread=False)
    try:
        if mode == ALONE:
            raw.execute("pragma locking_mode = exclusive")
        raw.execute("pragma synchronous = full")
    except BaseException:
        # As long as it is open, it shares a lock.
        raw.close()
        raise
    return raw


def reading(path: Path) -> str:
    """Return the mode to open for reading: other ones where SQLite can make or fill no file beside it."""
    if not os.access(path.parent, os.W_OK) and not path.with_name(f"{path.name}-wal").exists():
        return "ro&immutable=1"
    try:
        with closing(connect(path, "ro")) as raw:
            raw.execute("select 1 from sqlite_schema").fetchone()
    except sqlite3.OperationalError as error:
        return ALONE if error.sqlite_errorname.startswith(_NO_ROOM) else "ro"
    return "ro"


def _look(path: Path) -> _Found:
    """Read what the header tells; SQLite itself would leave traces, and move what a dead process left behind.

    Raises StoreUnusable for what is not ours or is newer.
    """
    try:
        kind = path.stat().st_mode
    except FileNotFoundError:
        return _Found.NOTHING
    if S_ISDIR(kind):
        raise StoreUnusable(f"{path} is a folder; name a file in it, e.g. {path / 'runs.db'}")
    if not S_ISREG(kind):
        raise StoreUnusable(f"{path} is no ordinary file; {ELSEWHERE}")
    with path.open("rb") as file:
        header = file.read(100)
    if not header:
        return _Found.NOTHING
    if len(header) < 100 or not header.startswith(b"SQLite format 3\0"):  # noqa: PLR2004 - SQLite's file format
        raise StoreUnusable(f"{path} {_REASONS['SQLITE_NOTADB']}; {ELSEWHERE}")
    version, application_id = int.from_bytes(header[60:64]), int.from_bytes(header[68:72])
    if not version and not application_id and not int.from_bytes(header[40:44]):
        # No table was ever made in it: whoever began has not finished, or died.
        return _Found.NOTHING
    _require_ours(path, application_id, version)
    # Only before the first WAL there is such a file; then what the header says may not be true yet.
    if path.with_name(f"{path.name}-journal").exists():
        return _Found.NOTHING
    return _Found.CURRENT if version == VERSION else _Found.OLDER


def _require_ours(path: Path, application_id: int, version: int) -> None:
    if application_id != APPLICATION_ID:
        raise StoreUnusable(f"{path} is the database of another program; {ELSEWHERE}")
    if version > VERSION:
        raise newer(str(path), version)


def _require_writable(path: Path) -> None:
    # SQLite makes files beside its own, too.
    for one in (path, path.parent):
        if one.exists() and not os.access(one, os.W_OK):
            raise StoreUnusable(f"{path} cannot be written, {one} forbids it; {ELSEWHERE}")


def _settle(path: Path) -> None:
    """Make the tables, for their owner alone, or bring them up to date; another process may have been faster."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.touch(mode=0o600)
    with closing(connect(path, "rw")) as raw:
        # Has to come before the first table; in a transaction it would be too late.
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
        # Until then the header, which is looked at first, may be behind.
        raw.execute("pragma wal_checkpoint(truncate)")


@contextmanager
def transaction(raw: sqlite3.Connection, *, write: bool) -> Iterator[None]:
    """Commit all that is done in it, or nothing.

    write: keep others from writing from the beginning.
    """
    raw.execute("begin immediate" if write else "begin")
    try:
        yield
        raw.execute("commit")
    finally:
        if raw.in_transaction:
            raw.execute("rollback")


def _version(path: Path, raw: sqlite3.Connection) -> int:
    """Return the version with what the WAL holds; the header may be behind.

    Raises StoreUnusable for what is not ours or is newer.
    """
    application_id, version = (
        int(raw.execute(f"pragma {name}").fetchone()[0]) for name in ("application_id", "user_version")
    )
    _require_ours(path, application_id, version)
    return version


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """Turn what the system or SQLite says into one line."""
    try:
        yield
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise StoreUnusable(f"{path} cannot be opened: {reason}; {ELSEWHERE}") from error
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorname", "")
        known = next((words for name, words in _REASONS.items() if code.startswith(name)), None)
        raise StoreUnusable(f"{path} {known or f'cannot be opened: {error}'}; {ELSEWHERE}") from error

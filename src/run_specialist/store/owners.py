"""Whether the process that writes a run still lives: it holds a lock that the system lets go when it dies.

Nothing depends on a clock or on process ids, so this holds between containers that share a folder or a server. For an
SQLite file the lock is on a small file in the folder `<store>.owners`, for PostgreSQL it is one of the server's own.
"""

import hashlib
import os
import secrets
import socket
from abc import ABC, abstractmethod
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import Connection, NullPool, create_engine, text
from sqlalchemy.exc import DBAPIError

from run_specialist.errors import StoreUnusable
from run_specialist.store.locks import is_free, make_locked
from run_specialist.store.place import ELSEWHERE, file_of
from run_specialist.store.postgresql import parsed, told

UNKNOWN = "another process"
"""What an owner is called that left no words."""

_HELD = (
    "pg_locks where locktype = 'advisory' and objsubid = 1 and granted "
    "and database = (select oid from pg_database where datname = current_database()) "
    "and (classid::bigint << 32) | objid::bigint = :key"
)
"""The lock of one owner, as the server lists it."""


class Owner(ABC):
    """This process as one that writes into a store, for as long as it holds its lock."""

    def __init__(self) -> None:
        self.token = secrets.token_hex(16)
        """What the runs that it writes carry."""
        self._process = os.getpid()

    @staticmethod
    def take(url: str) -> "Owner":
        """Take a lock of its own for this process, in a store that is there; on PostgreSQL by a further connection.

        Raises StoreUnusable.
        """
        path = file_of(url)
        return _BySession(url) if path is None else _ByFile(path)

    def close(self) -> None:
        """Let it go; harmless a second time. A forked child holds it too, but cannot let it go for its parent."""
        if self._process == os.getpid():
            self._let_go()

    @abstractmethod
    def renew(self) -> None:
        """Take it again where the connection that held it broke.

        Raises StoreUnusable.
        """

    @abstractmethod
    def _let_go(self) -> None: ...


class _ByFile(Owner):
    def __init__(self, store: Path) -> None:
        super().__init__()
        folder = _folder(store)
        self._file = _file(store, self.token)
        self._descriptor: int | None = None
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
            self._descriptor = make_locked(self._file, _words())
        except OSError as error:
            raise StoreUnusable(f"{folder}: no file can be locked there: {error.strerror}; {ELSEWHERE}") from error
        for file in folder.glob("*.lock"):
            # In this order: one that is free and still empty is just being made.
            with suppress(OSError):
                if file.stat().st_size and is_free(file):
                    file.unlink()

    def renew(self) -> None:
        """Nothing breaks here."""

    def _let_go(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
            with suppress(OSError):
                self._file.unlink()


class _BySession(Owner):
    """Holds an advisory lock of the server by a connection that does nothing else."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self._url = url
        self._connection = _connect(url, _words())
        self._lock()

    def renew(self) -> None:
        """Ask the connection; where it is gone, take a new one."""
        with told(self._url):
            try:
                self._connection.execute(text("select 1"))
            except DBAPIError:
                self._connection.close()
                self._connection = _connect(self._url, _words())
                self._lock()

    def _lock(self) -> None:
        with told(self._url):
            # Shared, so that a broken session that the server has not missed yet is not waited for.
            self._connection.execute(text("select pg_advisory_lock_shared(:key)"), {"key": _key(self.token)})

    def _let_go(self) -> None:
        self._connection.close()


def is_alive(url: str, token: str) -> bool:
    """Say whether the process of that token still holds its lock; true where that cannot be told.

    Raises StoreUnusable when the server cannot be asked.
    """
    store = file_of(url)
    if store is None:
        return bool(_asked(url, f"select 1 from {_HELD}", token))  # noqa: S608 - ours
    file = _file(store, token)
    if not is_free(file):
        return True
    # It may belong to somebody else, or the folder; whoever writes next removes it as well.
    with suppress(OSError):
        file.unlink(missing_ok=True)
    return False


def describe(url: str, token: str) -> str:
    """Return what the process of that token says of itself: process id, host, start.

    Raises StoreUnusable when the server cannot be asked.
    """
    store = file_of(url)
    if store is None:
        held = f"select pid from {_HELD}"  # noqa: S608 - ours
        asked = f"select application_name from pg_stat_activity where pid in ({held})"  # noqa: S608 - ours
        return _asked(url, asked, token) or UNKNOWN
    try:
        return _file(store, token).read_text(errors="replace").strip() or UNKNOWN
    except OSError:
        return UNKNOWN


def _words() -> str:
    return f"process {os.getpid()} on {socket.gethostname()}, since {datetime.now(UTC):%Y-%m-%d %H:%M} UTC"


def _folder(store: Path) -> Path:
    # By whatever name a store is opened, its owners are found in one place.
    real = store.resolve()
    return real.with_name(f"{real.name}.owners")


def _file(store: Path, token: str) -> Path:
    # A token that was never ours, in a store that somebody wrote by hand, must not name a file elsewhere.
    return _folder(store) / f"{hashlib.sha256(token.encode(errors='replace')).hexdigest()[:32]}.lock"


def _key(token: str) -> int:
    return int.from_bytes(hashlib.sha256(token.encode(errors="replace")).digest()[:8], signed=True)


def _connect(url: str, words: str = "") -> Connection:
    """Connect by a session that begins no transactions."""
    with told(url):
        named = parsed(url).update_query_dict({"application_name": words} if words else {})
        return create_engine(named, poolclass=NullPool, isolation_level="AUTOCOMMIT").connect()


def _asked(url: str, statement: str, token: str) -> str | None:
    with told(url), _connect(url) as connection:
        answer = connection.execute(text(statement), {"key": _key(token)}).scalar()
    return None if answer is None else str(answer)

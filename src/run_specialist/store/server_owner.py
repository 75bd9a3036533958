"""The owner of runs in a PostgreSQL database: its lock is one of the server's own."""

import selectors
import socket
import threading
from contextlib import suppress

from sqlalchemy import Connection, NullPool, create_engine, text
from sqlalchemy.exc import SQLAlchemyError

from run_specialist.store.owner import Owner, digest, words
from run_specialist.store.postgresql import VANISHED, parsed, told

PING = 5.0
"""How often the session that holds the lock is asked whether it is still there [s]."""
SHORTEST_PAUSE, LONGEST_PAUSE = 0.1, 1.0
"""Between two attempts to take the lock again, each pause twice as long as the one before [s]."""
LEAVING = 1.0
"""The longest that letting go waits for an attempt that is under way [s]."""

_HELD = (
    "pg_locks where locktype = 'advisory' and objsubid = 1 and granted "
    "and database = (select oid from pg_database where datname = current_database()) "
    "and (classid::bigint << 32) | objid::bigint = :key"
)
"""The lock of one owner, as the server lists it."""
# Keepalives do not count while an answer of the server is on its way; before version 12 there is no such setting.
_DROP_VANISHED = (
    "select set_config(name, :milliseconds, false) from pg_settings "
    "where name = 'tcp_user_timeout' and source = 'default'"
)


class ServerOwner(Owner):
    """Holds an advisory lock of the server by a session that does nothing else.

    A thread pings the session, and takes the lock again as soon as the session is cut.
    """

    def __init__(self, url: str) -> None:
        super().__init__()
        self._url = url
        self._busy = threading.Lock()
        self._over = threading.Event()
        with told(url):
            self._connection = self._locked()
        self._waker, self._woken = socket.socketpair()
        try:
            threading.Thread(target=self._keep, name="run-specialist owner", daemon=True).start()
        except RuntimeError:
            self._connection.close()
            raise

    def renew(self) -> None:
        """Ping the session; where it was cut, take the lock by a new one."""
        with self._busy, told(self._url):
            if self._over.is_set():
                return
            try:
                self._connection.execute(text("select 1"))
            except SQLAlchemyError:
                self._connection.close()
                self._connection = self._locked()
                self._wake()
            if self._over.is_set():
                self._connection.close()

    def _keep(self) -> None:
        """Renew the lock every few seconds, and at once when the server ends the session."""
        pause = PING
        while not self._over.is_set():
            self._wait(pause)
            try:
                self.renew()
                pause = PING
            except Exception:  # noqa: BLE001 - a thread that ends would leave the run without its lock
                pause = SHORTEST_PAUSE if pause == PING else min(2 * pause, LONGEST_PAUSE)
        self._waker.close()
        self._woken.close()

    def _wait(self, seconds: float) -> None:
        """Wait, but no longer than until the server says something, which is its last word, or somebody wakes us."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._woken, selectors.EVENT_READ)
            # A session that is closed has no socket.
            with suppress(Exception):
                selector.register(self._connection.connection.driver_connection, selectors.EVENT_READ)  # type: ignore[arg-type]
            if any(key.fileobj is self._woken for key, _ in selector.select(seconds)):
                self._woken.recv(64)

    def _wake(self) -> None:
        with suppress(OSError):
            self._waker.send(b"\0")

    def _locked(self) -> Connection:
        """Return a new session that holds the lock."""
        connection = _connect(self._url, words())
        try:
            connection.execute(text(_DROP_VANISHED), {"milliseconds": str(VANISHED * 1_000)})
            # Shared, so that a broken session that the server has not missed yet is not waited for.
            connection.execute(text("select pg_advisory_lock_shared(:key)"), {"key": _key(self.token)})
        except SQLAlchemyError:
            connection.close()
            raise
        return connection

    def _let_go(self) -> None:
        self._over.set()
        self._wake()
        # An attempt that is under way ends the session itself.
        if self._busy.acquire(timeout=LEAVING):
            self._connection.close()
            self._busy.release()


def is_alive(url: str, token: str) -> bool:
    """Say whether the process of that token still holds its lock.

    Raises StoreUnusable when the server cannot be asked.
    """
    return bool(_asked(url, f"select 1 from {_HELD}", token))  # noqa: S608 - ours


def describe(url: str, token: str) -> str | None:
    """Return what the process of that token says of itself; None where nobody holds its lock.

    Raises StoreUnusable when the server cannot be asked.
    """
    held = f"select pid from {_HELD}"  # noqa: S608 - ours
    return _asked(url, f"select application_name from pg_stat_activity where pid in ({held})", token)  # noqa: S608 - ours


def _key(token: str) -> int:
    return int.from_bytes(digest(token)[:8], signed=True)


def _connect(url: str, name: str = "") -> Connection:
    """Connect by a session that begins no transactions."""
    with told(url):
        named = parsed(url).update_query_dict({"application_name": name} if name else {})
        return create_engine(named, poolclass=NullPool, isolation_level="AUTOCOMMIT").connect()


def _asked(url: str, statement: str, token: str) -> str | None:
    with told(url), _connect(url) as connection:
        answer = connection.execute(text(statement), {"key": _key(token)}).scalar()
    return None if answer is None else str(answer)

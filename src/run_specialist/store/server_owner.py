"""The owner lock in a PostgreSQL database: an advisory lock of the server."""

import selectors
import socket
import threading
from contextlib import suppress

from sqlalchemy import Connection, NullPool, create_engine, text
from sqlalchemy.exc import SQLAlchemyError

from run_specialist.store.owner import Owner, digest, process_description
from run_specialist.store.postgresql import DEAD_PEER_TIMEOUT, parsed, readable_server_errors

PING = 5.0
"""Interval of the pings that check the session which holds the lock [s]."""
SHORTEST_PAUSE, LONGEST_PAUSE = 0.1, 1.0
"""First and maximum pause between attempts to reacquire the lock; each pause doubles [s]."""
RELEASE_TIMEOUT = 1.0
"""How long releasing the lock waits for an attempt in progress [s]."""

_HELD = (
    "pg_locks where locktype = 'advisory' and objsubid = 1 and granted "
    "and database = (select oid from pg_database where datname = current_database()) "
    "and (classid::bigint << 32) | objid::bigint = :key"
)
"""The lock of one owner in the server's catalog."""
# Keepalives do not apply while sent data is unacknowledged. PostgreSQL has this setting from version 12 on.
_DROP_VANISHED = (
    "select set_config(name, :milliseconds, false) from pg_settings "
    "where name = 'tcp_user_timeout' and source = 'default'"
)


class ServerOwner(Owner):
    """Holds an advisory lock in a dedicated session.

    A thread pings the session, and reacquires the lock as soon as the session ends.
    """

    def __init__(self, url: str) -> None:
        super().__init__()
        self._url = url
        self._renewing = threading.Lock()
        self._closed = threading.Event()
        with readable_server_errors(url):
            self._connection = self._locked()
        self._waker, self._woken = socket.socketpair()
        try:
            threading.Thread(target=self._keep_alive, name="run-specialist owner", daemon=True).start()
        except RuntimeError:
            self._connection.close()
            raise

    def renew(self) -> None:
        """Ping the session; if it has ended, acquire the lock in a new one."""
        with self._renewing, readable_server_errors(self._url):
            if self._closed.is_set():
                return
            try:
                self._connection.execute(text("select 1"))
            except SQLAlchemyError:
                self._connection.close()
                self._connection = self._locked()
                self._wake()
            if self._closed.is_set():
                self._connection.close()

    def _keep_alive(self) -> None:
        """Renew the lock every `PING` seconds, and immediately if the server ends the session."""
        pause = PING
        while not self._closed.is_set():
            self._wait(pause)
            try:
                self.renew()
                pause = PING
            except Exception:  # noqa: BLE001 - if the thread ended, the run would lose its lock
                pause = SHORTEST_PAUSE if pause == PING else min(2 * pause, LONGEST_PAUSE)
        self._waker.close()
        self._woken.close()

    def _wait(self, seconds: float) -> None:
        """Wait for a timeout, a wake-up, or data from the server, which means that it ends the session."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._woken, selectors.EVENT_READ)
            # A closed session has no socket.
            with suppress(Exception):
                selector.register(self._connection.connection.driver_connection, selectors.EVENT_READ)  # type: ignore[arg-type]
            if any(key.fileobj is self._woken for key, _ in selector.select(seconds)):
                self._woken.recv(64)

    def _wake(self) -> None:
        with suppress(OSError):
            self._waker.send(b"\0")

    def _locked(self) -> Connection:
        """Return a new session that holds the lock."""
        connection = _connect(self._url, process_description())
        try:
            connection.execute(text(_DROP_VANISHED), {"milliseconds": str(DEAD_PEER_TIMEOUT * 1_000)})
            # A shared lock does not wait for a broken session that the server has not detected yet.
            connection.execute(text("select pg_advisory_lock_shared(:key)"), {"key": _key(self.token)})
        except SQLAlchemyError:
            connection.close()
            raise
        return connection

    def _release(self) -> None:
        self._closed.set()
        self._wake()
        # An attempt in progress closes the session itself.
        if self._renewing.acquire(timeout=RELEASE_TIMEOUT):
            self._connection.close()
            self._renewing.release()


def is_alive(url: str, token: str) -> bool:
    """Return whether the process with this token still holds its lock.

    Raises StoreUnusable if the server cannot be queried.
    """
    return bool(_query(url, f"select 1 from {_HELD}", token))  # noqa: S608 - constants


def challenge(url: str, token: str) -> bool:
    """End the session that holds the lock of a process; return whether there was one.

    A live process reconnects immediately. A frozen one, or one on a host that cannot be reached, keeps its session and
    its lock, although it does not work.
    Raises StoreUnusable if the server cannot be queried.
    """
    # A session that has just been opened shows that its process is alive.
    held = f"select pid from {_HELD}"  # noqa: S608 - constants
    old = f"backend_start < clock_timestamp() - interval '{PING} seconds'"
    ended = f"select pg_terminate_backend(pid) from pg_stat_activity where {old} and pid in ({held})"  # noqa: S608
    return _query(url, ended, token) is not None


def describe(url: str, token: str) -> str | None:
    """Return the description of the process with this token; None if no process holds its lock.

    Raises StoreUnusable if the server cannot be queried.
    """
    held = f"select pid from {_HELD}"  # noqa: S608 - constants
    return _query(url, f"select application_name from pg_stat_activity where pid in ({held})", token)  # noqa: S608


def _key(token: str) -> int:
    return int.from_bytes(digest(token)[:8], signed=True)


def _connect(url: str, name: str = "") -> Connection:
    """Connect in autocommit mode."""
    with readable_server_errors(url):
        named = parsed(url).update_query_dict({"application_name": name} if name else {})
        return create_engine(named, poolclass=NullPool, isolation_level="AUTOCOMMIT").connect()


def _query(url: str, statement: str, token: str) -> str | None:
    with readable_server_errors(url), _connect(url) as connection:
        value = connection.execute(text(statement), {"key": _key(token)}).scalar()
    return None if value is None else str(value)

"""A store on a PostgreSQL server: its database, session and owner."""

import re
import selectors
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any

from sqlalchemy import URL, Connection, Engine, NullPool, create_engine, exc, make_url, text

from run_specialist.errors import StoreMissing, StoreUnusable, on_error
from run_specialist.installation import adding
from run_specialist.store.base import Owner, Session, StoreFailure, StoreOutage, digest, process_description
from run_specialist.store.location import APPLICATION_ID, ELSEWHERE, NAMESPACE, VERSION, newer_version_error, shown
from run_specialist.store.rows import Row
from run_specialist.store.tables import make_tables, reason_of, upgrade

SCHEMES = ("postgresql://", "postgresql+", "postgres://")
"""URL prefixes of a PostgreSQL store; the driver is always psycopg, even if the URL names another."""
WAIT = 10
"""Timeout for a connection and for a lock that another process holds [s]."""
IDLE, INTERVAL, COUNT = 10, 5, 3
"""TCP keepalives on both sides: idle time before the first probe, interval, number of probes [s, s, 1]."""
# Silence after which the server ends a session and releases its locks [s].
_DEAD_PEER_TIMEOUT = IDLE + INTERVAL * COUNT
# By libpq's names; those of the server begin with `tcp_`. By default it detects an unreachable client after two hours.
_KEEPALIVES = {"keepalives_idle": IDLE, "keepalives_interval": INTERVAL, "keepalives_count": COUNT}


def open_database(url: str, *, write: bool) -> Engine:
    """Open the store in a database, with the arguments and errors of `opening.open_engine`."""
    with readable_server_errors(url):
        engine = _engine(url, write=write)
        with on_error(engine.dispose):
            with engine.connect() as connection:
                version = _version(connection, url)
            if version is None and not write:
                raise StoreMissing(f"there is no store at {shown(url)} yet; the first run creates it")
            if version is None or version < VERSION:
                _create_or_upgrade(url)
        return engine


def parsed(url: str) -> URL:
    """Return the URL for SQLAlchemy, with driver and settings added; settings in the URL take precedence."""
    parsed_url = make_url(url)
    if "@" in (parsed_url.host or ""):
        raise StoreUnusable(f"{shown(url)}: write an @ in the password as %40")
    # Shorter than `_DEAD_PEER_TIMEOUT`: the client reacquires its lock before the server releases it.
    defaults = {"keepalives": 1, **_KEEPALIVES, "connect_timeout": WAIT, "tcp_user_timeout": WAIT * 1_000}
    query: dict[str, str | tuple[str, ...]] = {name: str(value) for name, value in defaults.items()}
    query.update(parsed_url.query)
    # The statements are short: compiling them takes longer than executing them.
    settings = {f"tcp_{name}": value for name, value in _KEEPALIVES.items()} | {
        "jit": "off",
        "lock_timeout": f"{WAIT}s",
    }
    # If a setting occurs twice, the server uses the last value.
    options = [f"-c {name}={value}" for name, value in settings.items()]
    given = parsed_url.query.get("options", ())
    query["options"] = " ".join([*options, *((given,) if isinstance(given, str) else given)])
    # Without it, the driver returns bytes from an SQL_ASCII database; only UTF-8 can hold every text.
    query["client_encoding"] = "utf8"
    return parsed_url.set(drivername="postgresql+psycopg", query=query)


def user_of(url: str) -> str:
    """Return the role that a URL names; `ROLE` if it names none."""
    return make_url(url).username or "ROLE"


def _engine(url: str, *, write: bool) -> Engine:
    # Readers get one snapshot per transaction, as with SQLite. Writers must see what another process committed while
    # they waited for its lock.
    options = {} if write else {"postgresql_readonly": True}
    return create_engine(
        parsed(url),
        isolation_level="READ COMMITTED" if write else "REPEATABLE READ",
        execution_options={"schema_translate_map": {None: NAMESPACE}, **options},
    )


def _create_or_upgrade(url: str) -> None:
    """Create or upgrade the tables under a lock, so that one process does it while the others wait."""
    engine = _engine(url, write=True)
    try:
        with engine.begin() as connection:
            connection.execute(text(f"select pg_advisory_xact_lock({APPLICATION_ID})"))
            version = _version(connection, url)
            if version is None:
                # `create schema if not exists` needs the CREATE privilege even if the schema exists.
                if _value(connection, "select to_regnamespace(:name)") is None:
                    connection.execute(text(f"create schema {NAMESPACE}"))
                if _value(connection, "select count(*) from pg_tables where schemaname = :name"):
                    raise _foreign_tables(url)
                make_tables(connection)
            elif version < VERSION:
                # Alembic's statements do not qualify table names with a schema.
                connection.execute(text(f"set local search_path to {NAMESPACE}"))
                upgrade(connection)
    finally:
        engine.dispose()


def _version(connection: Connection, url: str) -> int | None:
    """Return the version of the tables; None if there are no tables."""
    if _value(connection, "select to_regclass(:name || '.alembic_version')") is None:
        return None
    revision = str(_value(connection, f"select version_num from {NAMESPACE}.alembic_version"))  # noqa: S608 - constants
    if not revision.isdecimal():
        raise _foreign_tables(url)
    version = int(revision)
    if version > VERSION:
        raise newer_version_error(shown(url), version)
    return version


def _value(connection: Connection, statement: str) -> str | int | None:
    value: str | int | None = connection.execute(text(statement), {"name": NAMESPACE}).scalar()
    return value


def _foreign_tables(url: str) -> StoreUnusable:
    return StoreUnusable(f"{shown(url)} contains tables of another program in the schema {NAMESPACE}; {ELSEWHERE}")


@contextmanager
def readable_server_errors(url: str) -> Iterator[None]:
    """Convert errors of the driver and the server to StoreUnusable, with one line that omits the password."""
    try:
        yield
    except ImportError as error:
        raise StoreUnusable(f"the PostgreSQL driver is not installed; {adding('postgres')}") from error
    except (exc.ArgumentError, ValueError) as error:
        raise StoreUnusable(f"{shown(url)} is not a valid URL; use postgresql://USER@HOST:PORT/DATABASE") from error
    except exc.SQLAlchemyError as error:
        reason = re.sub(r"^connection (failed|is bad): |FATAL: +", "", reason_of(error))
        raise StoreUnusable(f"{shown(url)} cannot be opened: {reason}; correct the URL, or {ELSEWHERE}") from error


PING = 5.0
"""Interval of the pings that check the session which holds the lock [s]."""
SHORTEST_PAUSE, LONGEST_PAUSE = 0.1, 1.0
"""First and maximum pause between attempts to reacquire the lock; each pause doubles [s]."""
# How long releasing the lock waits for an attempt in progress [s].
_RELEASE_TIMEOUT = 1.0

# The lock of one owner in the server's catalog.
_HELD = (
    "pg_locks where locktype = 'advisory' and objsubid = 1 and granted "
    "and database = (select oid from pg_database where datname = current_database()) "
    "and (classid::bigint << 32) | objid::bigint = :key"
)
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
        with on_error(self._connection.close):
            threading.Thread(target=self._keep_alive, name="run-specialist owner", daemon=True).start()

    def renew(self) -> None:
        """Ping the session; if it has ended, acquire the lock in a new one."""
        with self._renewing, readable_server_errors(self._url):
            if self._closed.is_set():
                return
            try:
                self._connection.execute(text("select 1"))
            except exc.SQLAlchemyError:
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
        with on_error(connection.close):
            connection.execute(text(_DROP_VANISHED), {"milliseconds": str(_DEAD_PEER_TIMEOUT * 1_000)})
            # A shared lock does not wait for a broken session that the server has not detected yet.
            connection.execute(text("select pg_advisory_lock_shared(:key)"), {"key": _key(self.token)})
        return connection

    def _release(self) -> None:
        self._closed.set()
        self._wake()
        # An attempt in progress closes the session itself.
        if self._renewing.acquire(timeout=_RELEASE_TIMEOUT):
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


PATIENCE = 60.0
"""How long to retry while the server restarts [s]."""

# Errors for a closed connection, a starting server, a full disk, a standby that is not promoted yet.
_TEMPORARY = (exc.OperationalError, exc.InterfaceError, exc.InternalError)


@cache
def _of_server(statement: str) -> str:
    """Return a statement with the schema of its tables, and with parameters in the form of the driver."""
    qualified = re.sub(r"\b(into|from|update|join) (?!set\b)(\w+)", rf"\1 {NAMESPACE}.\2", statement)
    return re.sub(r":(\w+)", r"%(\1)s", qualified)


class ServerSession(Session):
    """A session on a SQLAlchemy connection, which is replaced after an error."""

    lock = " for update"
    patience = PATIENCE

    def __init__(self, engine: Engine) -> None:
        """Connect to the database."""
        self._engine = engine
        self._connection: Connection | None = engine.connect()

    @contextmanager
    def transaction(self, *, lasting: bool = False) -> Iterator[None]:  # noqa: ARG002 - the server syncs each commit
        """Run the block in a transaction, which is rolled back if the block raises."""
        try:
            with self._connected().begin():
                yield
        except (exc.DataError, exc.IntegrityError):
            raise
        except exc.SQLAlchemyError as error:
            self.close()
            raise (StoreOutage if isinstance(error, _TEMPORARY) else StoreFailure)(reason_of(error)) from error

    def write(self, statement: str, rows: Sequence[Row]) -> int:
        """Execute a statement once per row, if there are any; return the number of rows affected."""
        return self._connected().exec_driver_sql(_of_server(statement), [*map(dict, rows)]).rowcount if rows else 0

    def read(self, statement: str, **values: object) -> list[tuple[Any, ...]]:
        """Return the rows of a query with these parameters."""
        return [tuple(row) for row in self._connected().exec_driver_sql(_of_server(statement), values)]

    def _connected(self) -> Connection:
        if self._connection is None:
            self._connection = self._engine.connect()
        return self._connection

    def close(self) -> None:
        """Close the connection and the engine's pool: after a failure, pooled connections may be broken too."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
        self._engine.dispose()

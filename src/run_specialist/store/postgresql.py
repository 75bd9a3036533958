"""Create, upgrade and open a store in a PostgreSQL database, in a dedicated schema."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import URL, Connection, Engine, create_engine, make_url, text
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from run_specialist.errors import StoreMissing, StoreUnusable
from run_specialist.installation import adding
from run_specialist.store.failures import reason_of
from run_specialist.store.identity import APPLICATION_ID, NAMESPACE, VERSION
from run_specialist.store.location import ELSEWHERE, newer_version_error, shown
from run_specialist.store.versions import make_tables, upgrade

SCHEMES = ("postgresql://", "postgresql+", "postgres://")
"""URL prefixes of a PostgreSQL store; the driver is always psycopg, even if the URL names another."""
WAIT = 10
"""Timeout for a connection and for a lock that another process holds [s]."""
IDLE, INTERVAL, COUNT = 10, 5, 3
"""TCP keepalives on both sides: idle time before the first probe, interval, number of probes [s, s, 1]."""
DEAD_PEER_TIMEOUT = IDLE + INTERVAL * COUNT
"""Silence after which the server ends a session and releases its locks [s]."""

_SESSION = {
    "tcp_keepalives_idle": IDLE,
    "tcp_keepalives_interval": INTERVAL,
    "tcp_keepalives_count": COUNT,
    # The statements are short: compiling them takes longer than executing them.
    "jit": "off",
}
"""Server-side session settings; by default the server detects an unreachable client only after two hours."""
_CONNECTION = {
    "keepalives": 1,
    "keepalives_idle": IDLE,
    "keepalives_interval": INTERVAL,
    "keepalives_count": COUNT,
}
"""Client-side connection settings, by libpq's names."""


def open_database(url: str, *, write: bool) -> Engine:
    """Open the store in a database, with the arguments and errors of `opening.open_engine`."""
    with readable_server_errors(url):
        engine = _engine(url, write=write)
        try:
            _require_tables(engine, url, create=write)
        except BaseException:
            engine.dispose()
            raise
        return engine


def parsed(url: str) -> URL:
    """Return the URL for SQLAlchemy, with driver and settings added; settings in the URL take precedence."""
    parsed_url = make_url(url)
    if "@" in (parsed_url.host or ""):
        raise StoreUnusable(f"{shown(url)}: write an @ in the password as %40")
    # Shorter than `DEAD_PEER_TIMEOUT`: the client reacquires its lock before the server releases it.
    defaults = {**_CONNECTION, "connect_timeout": WAIT, "tcp_user_timeout": WAIT * 1_000}
    query: dict[str, str | tuple[str, ...]] = {name: str(value) for name, value in defaults.items()}
    query.update(parsed_url.query)
    # If a setting occurs twice, the server uses the last value.
    options = [f"-c {name}={value}" for name, value in {**_SESSION, "lock_timeout": f"{WAIT}s"}.items()]
    query["options"] = " ".join([*options, *_texts(parsed_url.query.get("options", ()))])
    # Without it, the driver returns bytes from an SQL_ASCII database; only UTF-8 can hold every text.
    query["client_encoding"] = "utf8"
    return parsed_url.set(drivername="postgresql+psycopg", query=query)


def user_of(url: str) -> str:
    """Return the role that a URL names; `ROLE` if it names none."""
    return make_url(url).username or "ROLE"


def _texts(value: str | tuple[str, ...]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else value


def _engine(url: str, *, write: bool) -> Engine:
    # Readers get one snapshot per transaction, as with SQLite. Writers must see what another process committed while
    # they waited for its lock.
    options = {} if write else {"postgresql_readonly": True}
    return create_engine(
        parsed(url),
        isolation_level="READ COMMITTED" if write else "REPEATABLE READ",
        execution_options={"schema_translate_map": {None: NAMESPACE}, **options},
    )


def _require_tables(engine: Engine, url: str, *, create: bool) -> None:
    with engine.connect() as connection:
        version = _version(connection, url)
    if version is None and not create:
        raise StoreMissing(f"there is no store at {shown(url)} yet; the first run creates it")
    if version is None or version < VERSION:
        _create_or_upgrade(url)


def _create_or_upgrade(url: str) -> None:
    """Create or upgrade the tables under a lock, so that one process does it while the others wait."""
    engine = _engine(url, write=True)
    try:
        with engine.begin() as connection:
            connection.execute(text(f"select pg_advisory_xact_lock({APPLICATION_ID})"))
            version = _version(connection, url)
            if version is None:
                _create(connection, url)
            elif version < VERSION:
                # Alembic's statements do not qualify table names with a schema.
                connection.execute(text(f"set local search_path to {NAMESPACE}"))
                upgrade(connection)
    finally:
        engine.dispose()


def _create(connection: Connection, url: str) -> None:
    # `create schema if not exists` needs the CREATE privilege even if the schema exists.
    if _value(connection, "select to_regnamespace(:name)") is None:
        connection.execute(text(f"create schema {NAMESPACE}"))
    if _value(connection, "select count(*) from pg_tables where schemaname = :name"):
        raise _foreign_tables(url)
    make_tables(connection)


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
    except (ArgumentError, ValueError) as error:
        raise StoreUnusable(f"{shown(url)} is not a valid URL; use postgresql://USER@HOST:PORT/DATABASE") from error
    except SQLAlchemyError as error:
        reason = re.sub(r"^connection (failed|is bad): |FATAL: +", "", reason_of(error))
        raise StoreUnusable(f"{shown(url)} cannot be opened: {reason}; correct the URL, or {ELSEWHERE}") from error

"""A store in a PostgreSQL database: a schema of our own there, made, brought up to date, opened."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import URL, Connection, Engine, create_engine, make_url, text
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from run_specialist.errors import StoreMissing, StoreUnusable
from run_specialist.store.failures import reason_of
from run_specialist.store.identity import APPLICATION_ID, NAMESPACE, VERSION
from run_specialist.store.location import ELSEWHERE, newer, shown
from run_specialist.store.versions import make_tables, upgrade

SCHEMES = ("postgresql://", "postgresql+", "postgres://")
"""What such a URL begins with; the driver is psycopg, whatever it says."""
WAIT = 10
"""For an answer of the server, and for a lock that another process holds [s]."""
IDLE, INTERVAL, COUNT = 10, 5, 3
"""TCP keepalives of both ends: silence before the first probe, time between probes, how many [s, s, 1]."""
VANISHED = IDLE + INTERVAL * COUNT
"""After so much silence the server drops a session, and the locks it holds [s]."""

_SESSION = {
    "tcp_keepalives_idle": IDLE,
    "tcp_keepalives_interval": INTERVAL,
    "tcp_keepalives_count": COUNT,
}
"""Settings of our sessions at the server, which by default notices a vanished host after two hours."""
_CONNECTION = {
    "keepalives": 1,
    "keepalives_idle": IDLE,
    "keepalives_interval": INTERVAL,
    "keepalives_count": COUNT,
}
"""Settings of our end; libpq's names."""


def open_database(url: str, *, write: bool) -> Engine:
    """Open the store in a database; see `opening.open_engine`."""
    with told(url):
        engine = _engine(url, write=write)
        try:
            _require_tables(engine, url, make=write)
        except BaseException:
            engine.dispose()
            raise
        return engine


def parsed(url: str) -> URL:
    """Return the URL as SQLAlchemy takes it, with our driver and settings; a setting that it names itself wins."""
    given = make_url(url)
    if "@" in (given.host or ""):
        raise StoreUnusable(f"{shown(url)}: write an @ in the password as %40")
    # The user timeout is shorter than `VANISHED`: this end takes its lock again before the server lets it go.
    ours = {**_CONNECTION, "connect_timeout": WAIT, "tcp_user_timeout": WAIT * 1_000}
    query: dict[str, str | tuple[str, ...]] = {name: str(value) for name, value in ours.items()}
    query.update(given.query)
    # The server takes the last value of a setting.
    options = [f"-c {name}={value}" for name, value in {**_SESSION, "lock_timeout": f"{WAIT}s"}.items()]
    query["options"] = " ".join([*options, *_texts(given.query.get("options", ()))])
    # Without it the driver returns bytes where the database is in SQL_ASCII; nothing else could hold every text.
    query["client_encoding"] = "utf8"
    return given.set(drivername="postgresql+psycopg", query=query)


def _texts(value: str | tuple[str, ...]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else value


def _engine(url: str, *, write: bool) -> Engine:
    # Who reads sees one state in all of a transaction, as with SQLite; who waited for a lock must see what came of it.
    options = {} if write else {"postgresql_readonly": True}
    return create_engine(
        parsed(url),
        isolation_level="READ COMMITTED" if write else "REPEATABLE READ",
        execution_options={"schema_translate_map": {None: NAMESPACE}, **options},
    )


def _require_tables(engine: Engine, url: str, *, make: bool) -> None:
    with engine.connect() as connection:
        version = _version(connection, url)
    if version is None and not make:
        raise StoreMissing(f"there is no store at {shown(url)} yet; a run makes it")
    if version is None or version < VERSION:
        _settle(url)


def _settle(url: str) -> None:
    """Make the tables, or bring them up to date; of several processes one does it, and the others wait."""
    engine = _engine(url, write=True)
    try:
        with engine.begin() as connection:
            connection.execute(text(f"select pg_advisory_xact_lock({APPLICATION_ID})"))
            version = _version(connection, url)
            if version is None:
                _make(connection, url)
            elif version < VERSION:
                # Alembic's statements name no schema.
                connection.execute(text(f"set local search_path to {NAMESPACE}"))
                upgrade(connection)
    finally:
        engine.dispose()


def _make(connection: Connection, url: str) -> None:
    # Even to ask for it with `if not exists` takes the right to make one.
    if _value(connection, "select to_regnamespace(:name)") is None:
        connection.execute(text(f"create schema {NAMESPACE}"))
    if _value(connection, "select count(*) from pg_tables where schemaname = :name"):
        raise _not_ours(url)
    make_tables(connection)


def _version(connection: Connection, url: str) -> int | None:
    """Return the version of the tables; None where there are none."""
    if _value(connection, "select to_regclass(:name || '.alembic_version')") is None:
        return None
    revision = str(_value(connection, f"select version_num from {NAMESPACE}.alembic_version"))  # noqa: S608 - ours
    if not revision.isdecimal():
        raise _not_ours(url)
    version = int(revision)
    if version > VERSION:
        raise newer(shown(url), version)
    return version


def _value(connection: Connection, statement: str) -> str | int | None:
    value: str | int | None = connection.execute(text(statement), {"name": NAMESPACE}).scalar()
    return value


def _not_ours(url: str) -> StoreUnusable:
    return StoreUnusable(f"{shown(url)} has tables of another program in its schema {NAMESPACE}; {ELSEWHERE}")


@contextmanager
def told(url: str) -> Iterator[None]:
    """Turn what the driver or the server says into one line without the password."""
    try:
        yield
    except ImportError as error:
        raise StoreUnusable("PostgreSQL needs its driver: pip install 'run-specialist[postgres]'") from error
    except (ArgumentError, ValueError) as error:
        raise StoreUnusable(f"{shown(url)} cannot be understood; write postgresql://USER@HOST:PORT/DATABASE") from error
    except SQLAlchemyError as error:
        reason = re.sub(r"^connection (failed|is bad): |FATAL: +", "", reason_of(error))
        raise StoreUnusable(f"{shown(url)} cannot be opened: {reason}; mend the URL, or {ELSEWHERE}") from error

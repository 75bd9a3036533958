"""Stores for tests: an SQLite file, and a new database on the PostgreSQL server named by TEST_POSTGRES."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_empty: list[str] = []
"""Databases of this process that no test uses: creating one takes longer than most tests of a store."""


@contextmanager
def postgresql_url() -> Iterator[str]:
    """Yield the URL of an empty database, and empty it afterwards, even if clients are still connected.

    TEST_POSTGRES: SQLAlchemy URL of a user who may create databases.
    """
    if not os.environ.get("TEST_POSTGRES"):
        pytest.skip("no PostgreSQL server: TEST_POSTGRES is not set")
    from sqlalchemy import make_url  # most tests need no database

    if not _empty:
        _empty.append(f"test_{secrets.token_hex(6)}")
        _order(f"create database {_empty[-1]}")
    name = _empty.pop()
    url = make_url(os.environ["TEST_POSTGRES"]).set(database=name)
    try:
        yield url.render_as_string(hide_password=False)
    finally:
        ended = f"select pg_terminate_backend(pid, 10000) from pg_stat_activity where datname = '{name}'"  # noqa: S608
        _order(
            f"{ended} and usename = user and pid <> pg_backend_pid()",
            "drop schema if exists run_specialist cascade",
            database=name,
        )
        _empty.append(name)


def _order(*statements: str, **other: str) -> None:
    """Execute statements on the server of TEST_POSTGRES."""
    from sqlalchemy import NullPool, create_engine, make_url

    engine = create_engine(
        make_url(os.environ["TEST_POSTGRES"]).set(**other), isolation_level="AUTOCOMMIT", poolclass=NullPool
    )
    with engine.connect() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)


def pytest_unconfigure() -> None:
    """Drop the databases of this process."""
    for name in _empty:
        _order(f"drop database if exists {name} with (force)")


@contextmanager
def fresh_store(kind: str, folder: Path) -> Iterator[str]:
    """Yield the URL of a store that does not exist yet; kind: `sqlite` or `postgresql`."""
    if kind == "sqlite":
        yield f"sqlite:///{folder}/runs.db"
    else:
        with postgresql_url() as url:
            yield url


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.exhaustive)])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Return the URL of a new store, once on each kind of database."""
    with fresh_store(request.param, tmp_path) as url:
        yield url


@contextmanager
def without_privileges() -> Iterator[None]:
    """Run the block without root's rights, because root may write everywhere."""
    if os.geteuid() != 0:
        yield
        return
    os.setresuid(65534, 65534, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)


def make_store(url: str, *run_ids: str) -> None:
    """Create a store with some runs in it."""
    from sqlalchemy import text

    from run_specialist.store.location import NAMESPACE, file_of
    from run_specialist.store.sqlite import open_engine

    engine = open_engine(url)
    runs = "runs" if file_of(url) else f"{NAMESPACE}.runs"
    with engine.begin() as connection:
        for run_id in run_ids:
            connection.execute(
                text(
                    f"insert into {runs} "  # noqa: S608 - a constant
                    "(run_id, specialist, model, question, status, started_at, owner, tool_calls, "
                    "frozen) values (:run_id, 'looker', 'offline', :words, 'answered', 1.5, 'abc', 3, :words)"
                ),
                {"run_id": run_id, "words": b"\0Why?"},
            )
    engine.dispose()

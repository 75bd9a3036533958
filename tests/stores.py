"""Stores to test with: an SQLite file, and a database of its own on the PostgreSQL server that TEST_POSTGRES names."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def postgresql_url() -> Iterator[str]:
    """Give the URL of a new, empty database, and drop it afterwards, whoever is still connected.

    TEST_POSTGRES: an SQLAlchemy URL of somebody who may create databases.
    """
    server = os.environ.get("TEST_POSTGRES")
    if not server:
        pytest.skip("no PostgreSQL server: TEST_POSTGRES is not set")
    from sqlalchemy import create_engine, make_url  # most tests need no database

    name = f"test_{secrets.token_hex(6)}"
    engine = create_engine(server, isolation_level="AUTOCOMMIT")
    try:
        with engine.connect() as connection:
            connection.exec_driver_sql(f"create database {name}")
        yield make_url(server).set(database=name).render_as_string(hide_password=False)
    finally:
        with engine.connect() as connection:
            connection.exec_driver_sql(f"drop database if exists {name} with (force)")
        engine.dispose()


@contextmanager
def fresh_store(kind: str, folder: Path) -> Iterator[str]:
    """Give the URL of a store that is not there yet, of one kind: `sqlite` or `postgresql`."""
    if kind == "sqlite":
        yield f"sqlite:///{folder}/runs.db"
    else:
        with postgresql_url() as url:
            yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Give the URL of a new store, once on each kind of database."""
    with fresh_store(request.param, tmp_path) as url:
        yield url

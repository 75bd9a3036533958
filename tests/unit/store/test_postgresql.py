import secrets

import pytest
from sqlalchemy import create_engine, text

from run_specialist.store import location
from run_specialist.store.postgresql import parsed
from run_specialist.store.sqlite import open_engine
from tests.stores import postgresql_url
from tests.unit.store.opened import add_run, refusal

WORD = "geheim"
"""A password that is correct for some roles and wrong for others."""


@pytest.fixture
def database():
    """Return the URL of an empty database."""
    with postgresql_url() as url:
        yield url


def execute(url, *statements):
    """Run statements in a database."""
    engine = create_engine(parsed(url))
    with engine.begin() as connection:
        for statement in statements:
            connection.execute(text(statement))
    engine.dispose()


def test_the_connection_timeout_is_limited():
    """The connection timeout is limited, as a silent network would block a run for minutes; the URL can override it."""
    assert parsed("postgresql://me@host/runs").query["connect_timeout"] == "10"
    assert parsed("postgresql://me@host/runs?connect_timeout=60").query["connect_timeout"] == "60"


def test_connection_errors_are_reported_in_one_line(database):
    """A wrong password and a missing database are each reported in one line."""
    url = parsed(database)
    wrong = url.set(password=WORD).render_as_string(hide_password=False)
    assert "password authentication failed" in refusal(wrong)
    assert WORD not in refusal(wrong)
    missing = url.set(database="nowhere").render_as_string(hide_password=False)
    assert 'database "nowhere" does not exist' in refusal(missing)


def test_tables_of_another_program_are_left_unchanged(database):
    """A table of another program in a schema with our name is left unchanged, and the store is refused."""
    execute(database, "create schema run_specialist", "create table run_specialist.runs (distance real)")
    assert "contains tables of another program in the schema run_specialist" in refusal(database)
    execute(database, "insert into run_specialist.runs values (42.195)")


def test_a_newer_database_is_refused(database):
    """A database of a newer version is refused and its tables are left unchanged."""
    open_engine(database).dispose()
    execute(database, "update run_specialist.alembic_version set version_num = '0099'")
    assert "newer run-specialist (its tables are of version 99" in refusal(database)
    assert "newer" in refusal(database, write=False)


def test_a_user_without_schema_rights_can_use_an_existing_schema(database):
    """A user without the right to create a schema can write to a store that an administrator has created."""
    open_engine(database).dispose()
    role = f"limited_{secrets.token_hex(4)}"
    execute(
        database,
        f"create role {role} login password '{WORD}'",
        f"grant usage on schema run_specialist to {role}",
        f"grant select, insert on all tables in schema run_specialist to {role}",
    )
    try:
        limited = parsed(database).set(username=role, password=WORD).render_as_string(hide_password=False)
        engine = open_engine(limited)
        add_run(engine, "one")
        engine.dispose()
        execute(database, f"revoke usage on schema run_specialist from {role}")
        assert "permission denied for schema run_specialist" in refusal(limited)
        execute(database, "drop schema run_specialist cascade")
        assert "permission denied for database" in refusal(limited)
    finally:
        execute(database, f"drop owned by {role}", f"drop role {role}")


def test_opening_waits_for_another_process_creating_the_store(database, monkeypatch):
    """Opening waits for another process that is creating the store, up to a timeout."""
    monkeypatch.setattr("run_specialist.store.postgresql.WAIT", 1)
    engine = create_engine(parsed(database))
    with engine.begin() as held:
        held.execute(text(f"select pg_advisory_xact_lock({location.APPLICATION_ID})"))
        assert "lock timeout" in refusal(database)
    engine.dispose()

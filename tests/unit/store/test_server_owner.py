"""The lock of an owner on a PostgreSQL server is held while the process lives, even if its session ends."""

import threading
import time
from itertools import chain, repeat

import pytest
from sqlalchemy import create_engine, text

from run_specialist.errors import StoreUnusable, UsageError
from run_specialist.store import postgresql, reader
from run_specialist.store.owners import acquire, is_alive
from run_specialist.store.postgresql import parsed
from run_specialist.store.reader import Store
from run_specialist.store.sqlite import open_engine
from tests.stores import postgresql_url
from tests.unit.store.opened import add_run

PATIENCE = 60
"""Timeout, after which a hanging test fails [s]."""


@pytest.fixture
def url():
    """Return the URL of an empty database; locks need no tables."""
    with postgresql_url() as found:
        yield found


def until(holds):
    """Wait until a condition holds."""
    last = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < last


def holder(url, token):
    """Return the id of the server process that holds an owner's lock, or None if none does."""
    return postgresql._query(url, f"select pid from {postgresql._HELD}", token)  # noqa: S608 - no user input


def cut_owners(url):
    """Terminate only the sessions that hold owners' locks."""
    engine = create_engine(parsed(url), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        others = "select pg_terminate_backend(pid) from pg_stat_activity where application_name like 'process %'"
        assert (True,) in connection.execute(text(f"{others} and datname = current_database()")).all()
    engine.dispose()


def test_a_lock_of_a_terminated_session_is_taken_again_at_once(url, monkeypatch):
    """A lock whose session was terminated is taken again immediately, without waiting for a ping.

    The token is the same, the session a new one.
    """
    monkeypatch.setattr(postgresql, "PING", 3_600)
    owner = acquire(url)
    first = holder(url, owner.token)
    cut_owners(url)
    until(lambda: holder(url, owner.token) not in {None, first})
    owner.close()
    until(lambda: not is_alive(url, owner.token))


def test_the_lock_is_retried_while_the_server_is_away(url, monkeypatch):
    """The thread that holds the lock keeps retrying while the server is away, and survives every refusal."""
    owner, refused = acquire(url), threading.Semaphore(0)
    whole = postgresql.ServerOwner._locked

    def no_server(self):
        refused.release()
        raise StoreUnusable("no server")

    monkeypatch.setattr(postgresql.ServerOwner, "_locked", no_server)
    cut_owners(url)
    for _ in range(3):
        assert refused.acquire(timeout=PATIENCE)
    assert not is_alive(url, owner.token)
    monkeypatch.setattr(postgresql.ServerOwner, "_locked", whole)
    until(lambda: is_alive(url, owner.token))
    owner.close()


SHOWN = {
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "25000",
}


def test_the_server_detects_a_lost_host_within_30_seconds(url):
    """The server detects a vanished host within 30 s; the default of two hours would block resuming its runs."""
    owner = acquire(url)
    shown = {name: owner._connection.execute(text(f"show {name}")).scalar() for name in SHOWN}
    owner.close()
    assert shown == SHOWN


def test_a_new_lock_does_not_wait_for_a_broken_session(url):
    """A new lock does not wait for a broken session that the server still counts as the holder of the lock."""
    owner = acquire(url)
    left_behind = owner._connection
    owner._connection = create_engine(parsed(url)).connect()
    owner._connection.connection.driver_connection.close()
    owner.renew()
    left_behind.close()
    assert is_alive(url, owner.token)
    owner.close()


def test_a_run_whose_lock_was_taken_again_is_not_deleted(url, monkeypatch):
    """A run is not deleted if its process has taken the lock again by the second check."""
    engine = open_engine(url)
    add_run(engine, "run-1")
    engine.dispose()
    looks = chain([False], repeat(True))
    monkeypatch.setattr(reader, "GRACE", 0)
    monkeypatch.setattr(reader, "is_alive", lambda _url, _token: next(looks))
    with Store(url) as store:
        with pytest.raises(UsageError, match="run-1 is still running"):
            store.delete(["run-1"])
        assert len(store.runs()) == 1

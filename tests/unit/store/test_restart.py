"""A PostgreSQL server that goes away and comes back only delays a run."""

import asyncio
from contextlib import closing

import pytest
from sqlalchemy.exc import OperationalError

from run_specialist.errors import NotResumable
from run_specialist.store.base import Backoff
from run_specialist.store.ledger import Ledger
from run_specialist.store.postgresql import ServerSession
from tests.postgres_server import postgres_server
from tests.unit.store.records import begun, change, connection, counts, ended, stored, turn_of, write

pytestmark = pytest.mark.exhaustive
AT_ONCE = Backoff(sleep=lambda _seconds: None)
"""Backoff that repeats without a pause."""


@pytest.fixture(scope="module")
def server():
    """Return a server that the test may stop."""
    with postgres_server() as running:
        yield running


@pytest.fixture
def database(server):
    """Return the URL of an empty database on the server."""
    change(server.url, "drop schema if exists run_specialist cascade")
    return server.url


def promote(url):
    """Allow new sessions to write."""
    with connection(url) as found:
        found.execute("set default_transaction_read_only = off")
        found.execute("alter database postgres reset default_transaction_read_only")


async def test_after_a_failover_the_writer_opens_a_new_session(database, make_writer):
    """After a failover the writer reconnects until it reaches a promoted server, as old sessions lead to a standby."""
    pauses = []

    def sleep(_seconds):
        pauses.append(1)
        if len(pauses) == 3:
            promote(database)

    journal = make_writer(database, Backoff(sleep=sleep)).journal("run-1")
    assert await write(journal, *begun("run-1")) is None
    change(database, "alter database postgres set default_transaction_read_only = on")
    try:
        change(database, "select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid()")
        assert await write(journal, *turn_of(1)) is None
    finally:
        promote(database)
    assert counts(database)["turns"] == 1


async def test_a_commit_with_a_lost_response_is_stored_once(database, make_writer, lose_responses):
    """If the response to a commit is lost, everything is sent again and stored exactly once."""
    writer = make_writer(database, AT_ONCE)
    writer.check()
    lose_responses(ServerSession, times=3)
    journal = writer.journal("run-1")
    assert await write(journal, *begun("run-1"), *turn_of(1), *turn_of(2), *ended("run-1")) is None
    assert counts(database) == {"runs": 1, "turns": 2, "messages": 5, "calls": 2, "events": 5}


async def test_a_claim_with_a_lost_response_is_recognized(database, make_writer, lose_responses, monkeypatch):
    """If the response to a claim is lost, the retry recognises its own process as the owner."""
    with closing(make_writer(database)) as first:
        assert await write(first.journal("run-1"), *begun("run-1"), *turn_of(1)) is None
    writer = make_writer(database, AT_ONCE)
    writer.check()
    claimed = []
    whole = Ledger._claim

    def claim(self, run, dead):
        others = [owner for owner in dead if owner != self.owner]
        if not claimed:  # from the next transaction on
            lose_responses(ServerSession)
        claimed.append(len(others))
        return whole(self, run, dead)

    monkeypatch.setattr(Ledger, "_claim", claim)
    journal = await asyncio.to_thread(writer.claim, stored("run-1", turns=1))
    assert claimed == [0, 1, 1]
    assert await write(journal, *turn_of(2)) is None


async def test_a_run_in_progress_is_not_claimed_again_after_a_lost_connection(database, make_writer, monkeypatch):
    """A run that this process is working on is not claimed again by the retry after a lost connection."""
    writer = make_writer(database, AT_ONCE)
    journal = writer.journal("run-1")
    assert await write(journal, *begun("run-1"), *turn_of(1)) is None
    broken = []
    whole = ServerSession.read

    def read(self, statement, **values):
        if not broken:
            broken.append(statement)
            raise OperationalError("", {}, Exception("cut"))
        return whole(self, statement, **values)

    monkeypatch.setattr(ServerSession, "read", read)
    with pytest.raises(NotResumable, match="run-1 is still running"):
        await asyncio.to_thread(writer.claim, stored("run-1", turns=1))
    assert broken

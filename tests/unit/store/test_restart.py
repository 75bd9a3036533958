"""A PostgreSQL server that goes away and comes back only delays a run."""

import asyncio

import pytest
from sqlalchemy.exc import OperationalError

from run_specialist.errors import NotResumable
from run_specialist.store.base import Backoff, StoreOutage
from run_specialist.store.ledger import Ledger
from run_specialist.store.location import Location
from run_specialist.store.postgresql import ServerSession
from run_specialist.store.writer import Writer
from tests.postgres_server import postgres_server
from tests.unit.store.records import begun, change, connection, counts, ended, stored, turn_of, write

pytestmark = pytest.mark.exhaustive


@pytest.fixture(scope="module")
def server():
    """Return a server that the test may stop."""
    with postgres_server() as running:
        yield running


@pytest.fixture
def database(server):
    """Return the URL of an empty database on the server."""
    with Writers(server.url) as writers:
        writers.make().check()
    change(server.url, "drop schema run_specialist cascade")
    return server.url


class Writers:
    """Creates writers of one store, each as if in a separate process, and closes them at the end."""

    def __init__(self, url):
        self._url = url
        self._made = []

    def make(self, backoff=None):
        """Create a writer."""
        self._made.append(Writer(Location(self._url, named=True), backoff))
        return self._made[-1]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for writer in self._made:
            writer.close()


@pytest.fixture
def writers(database):
    """Return an object that creates writers."""
    with Writers(database) as made:
        yield made


def promote(url):
    """Allow new sessions to write."""
    with connection(url) as found:
        found.execute("set default_transaction_read_only = off")
        found.execute("alter database postgres reset default_transaction_read_only")


def after(pauses, doing):
    """Return a replacement for `sleep` that runs a function at the n-th pause."""
    left = iter(range(pauses - 1, -1, -1))

    def sleep(_seconds):
        if next(left, None) == 0:
            doing()

    return sleep


async def test_after_a_failover_the_writer_opens_a_new_session(database, writers):
    """After a failover the writer reconnects until it reaches a promoted server, as old sessions lead to a standby."""
    writer = writers.make(Backoff(sleep=after(3, lambda: promote(database))))
    journal = writer.journal("run-1")
    assert await write(journal, *begun("run-1")) is None
    change(database, "alter database postgres set default_transaction_read_only = on")
    try:
        change(database, "select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid()")
        assert await write(journal, *turn_of(1)) is None
    finally:
        promote(database)
    assert counts(database)["turns"] == 1


class Answerless:
    """Commits a transaction, and then breaks the connection before the response arrives."""

    def __init__(self, monkeypatch, times=1):
        self.left = times
        whole = ServerSession.transaction

        def transaction(session, **how):
            return self._broken(whole(session, **how))

        monkeypatch.setattr(ServerSession, "transaction", transaction)

    def _broken(self, whole):
        outer = self

        class Transaction:
            def __enter__(self):
                return whole.__enter__()

            def __exit__(self, *raised):
                done = whole.__exit__(*raised)
                if outer.left and raised == (None, None, None):
                    outer.left -= 1
                    raise StoreOutage("server closed the connection unexpectedly")
                return done

        return Transaction()


async def test_a_commit_with_a_lost_response_is_stored_once(database, writers, monkeypatch):
    """If the response to a commit is lost, everything is sent again and stored exactly once."""
    writer = writers.make(Backoff(sleep=lambda _seconds: None))
    writer.check()
    Answerless(monkeypatch, times=3)
    journal = writer.journal("run-1")
    assert await write(journal, *begun("run-1"), *turn_of(1), *turn_of(2), *ended("run-1")) is None
    assert counts(database) == {"runs": 1, "turns": 2, "messages": 5, "calls": 2, "events": 5}


async def test_a_claim_with_a_lost_response_is_recognized(database, writers, monkeypatch):
    """If the response to a claim is lost, the retry recognises its own process as the owner."""
    with Writers(database) as first:
        assert await write(first.make().journal("run-1"), *begun("run-1"), *turn_of(1)) is None
    writer = writers.make(Backoff(sleep=lambda _seconds: None))
    writer.check()
    claimed = []
    whole = Ledger._claim

    def claim(self, run, dead):
        others = [owner for owner in dead if owner != self.owner]
        if others and 1 not in claimed:
            Answerless(monkeypatch)
        claimed.append(len(others))
        return whole(self, run, dead)

    monkeypatch.setattr(Ledger, "_claim", claim)
    journal = await asyncio.to_thread(writer.claim, stored("run-1", turns=1))
    assert claimed == [0, 1, 1]
    assert await write(journal, *turn_of(2)) is None


async def test_a_run_in_progress_is_not_claimed_again_after_a_lost_connection(database, writers, monkeypatch):
    """A run that this process is working on is not claimed again by the retry after a lost connection."""
    writer = writers.make(Backoff(sleep=lambda _seconds: None))
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

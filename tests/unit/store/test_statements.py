"""The SQL written without SQLAlchemy, what is synced, and the writing of batches."""

import asyncio
import os
import secrets
import threading
import tracemalloc

import pytest
from sqlalchemy.dialects import sqlite
from sqlalchemy.schema import CreateIndex, CreateTable

from run_specialist.errors import StoreUnusable
from run_specialist.record.journal import FileChanging
from run_specialist.store import batches, location
from run_specialist.store import sqlite as file_session
from run_specialist.store.base import Backoff, StoreFailure, StoreOutage
from run_specialist.store.batches import BatchWriter, StoredBatch, StoredItem
from run_specialist.store.location import VERSION
from run_specialist.store.postgresql import parsed
from run_specialist.store.schema import sqlite_statements
from run_specialist.store.sqlite import FileSession, open_engine, open_file
from run_specialist.store.tables import metadata, stamp
from tests.stores import postgresql_url
from tests.unit.store.finished_runs import keep, run_of
from tests.unit.store.opened import add_run, refusal
from tests.unit.store.records import ask, begun, change, connection, counts, ended, turn_of, unpacked, write


def test_a_new_file_has_the_tables_of_sqlalchemy():
    """The SQL that creates a file without SQLAlchemy equals what SQLAlchemy generates from the same definition."""
    created = [
        statement
        for table in (*metadata.tables.values(), stamp)
        for statement in (
            CreateTable(table),
            *map(CreateIndex, sorted(table.indexes, key=lambda index: str(index.name))),
        )
    ]
    wanted = [" ".join(str(one.compile(dialect=sqlite.dialect())).split()) for one in created]
    *made, stamped = sqlite_statements()
    assert made == [one.replace("( ", "(").replace(" )", ")").replace(" ,", ",") for one in wanted]
    assert stamped == f"INSERT INTO alembic_version (version_num) VALUES ('{VERSION:04}')"  # noqa: S608 - no user input


@pytest.fixture
def session(tmp_path):
    """Return a session in a new file."""
    path = tmp_path / "runs.db"
    session = FileSession(open_file(path, write=True), path)
    yield session
    session.close()


@pytest.fixture
def synced(monkeypatch):
    """Return the inodes of the files that were synced by `FileSession.sync`."""
    inodes = []
    monkeypatch.setattr(file_session.os, "fsync", lambda file: inodes.append(os.fstat(file).st_ino))
    return inodes


def commit(session, *, lasting=False):
    """Commit a row; return how much SQLite syncs in the commit: 1 nothing (checkpoints alone), 2 the commit."""
    with session.transaction(lasting=lasting):
        session.write("update alembic_version set version_num = version_num", [{}])
        return session.raw.execute("pragma synchronous").fetchone()[0]


def test_of_commits_in_quick_succession_only_some_are_synced(session, synced, tmp_path, monkeypatch):
    """Commits are synced after them, those in quick succession together; only those that must last sync themselves."""
    clock = [100.0]
    monkeypatch.setattr(file_session.time, "monotonic", lambda: clock[0])
    seen = []
    for later, lasting in ((0, False), (0, False), (0.06, False), (0.06, False), (0.01, True), (0.2, False)):
        clock[0] += later
        seen.append((commit(session, lasting=lasting), len(synced)))
        session.sync()
    assert seen == [(1, 0), (1, 1), (1, 1), (1, 1), (2, 2), (1, 2)]
    clock[0] += 1
    session.sync()
    assert synced == [(tmp_path / "runs.db-wal").stat().st_ino] * 3


def test_after_a_failed_sync_the_next_commit_syncs_itself(session, monkeypatch):
    """A commit that could not be synced is synced by the next one, which reports a failing disk; then all is as before.

    A sync that fails stops nothing.
    """

    def fail(_file):
        raise OSError

    with monkeypatch.context() as failing:
        failing.setattr(file_session.os, "fsync", fail)
        assert commit(session) == 1
        session.sync()
    assert [commit(session), commit(session)] == [2, 1]


async def test_a_run_does_not_wait_for_a_sync(make_writer, tmp_path, monkeypatch):
    """Records are acknowledged before they are synced, so that the disk works while the model does."""
    syncing, release = threading.Event(), threading.Event()
    monkeypatch.setattr(file_session.os, "fsync", lambda _file: syncing.set() or release.wait())
    journal = make_writer(f"sqlite:///{tmp_path}/runs.db").journal("run-1")
    try:
        assert await write(journal, *begun("run-1")) is None
        assert await asyncio.to_thread(syncing.wait, 10)
        assert counts(f"sqlite:///{tmp_path}/runs.db")["runs"] == 1
    finally:
        release.set()


def test_a_change_and_an_outcome_are_synced(make_writer, tmp_path, monkeypatch):
    """What a change replaces is synced before the file is replaced, and an outcome even directly after a commit."""
    asked = []
    whole = FileSession.transaction
    monkeypatch.setattr(FileSession, "transaction", lambda self, *, lasting=False: asked.append(lasting) or whole(self))
    writer = make_writer(f"sqlite:///{tmp_path}/runs.db")
    journal = writer.journal("run-1")
    change_of_file = FileChanging("id", "a.md", "old", "new", "content", ".a.md.tmp", 2)
    for records in (begun("run-1"), turn_of(1), [change_of_file], ended("run-1")[:1]):
        assert asyncio.run(write(journal, *records)) is None
    assert asked == [False, False, True, True]


@pytest.mark.parametrize(
    ("statement", "error"),
    [("insert into nowhere values (:it)", StoreFailure), ("insert into events values (1, 2, 3, :it)", Exception)],
)
def test_a_failed_transaction_is_rolled_back(session, statement, error):
    """A failed transaction is rolled back, and the next one finds the connection unchanged."""
    with pytest.raises(error) as raised:  # noqa: PT012, SIM117 - the entire transaction fails
        with session.transaction():
            session.write("insert into alembic_version values (:it)", [{"it": "kept?"}])
            session.write(statement, [{"it": object() if error is Exception else 1}])
    assert isinstance(raised.value, StoreFailure) is (error is StoreFailure)
    with session.transaction():
        assert session.read("select version_num from alembic_version where version_num > :it", it="a") == []


WORD = "geheim"
"""A password that is correct for some roles and wrong for others."""


@pytest.fixture
def database():
    """Return the URL of an empty database."""
    with postgresql_url() as url:
        yield url


def test_the_connection_timeout_is_limited():
    """The connection timeout is limited, as a silent network would block a run for minutes; the URL can override it."""
    assert parsed("postgresql://me@host/runs").query["connect_timeout"] == "10"
    assert parsed("postgresql://me@host/runs?connect_timeout=60").query["connect_timeout"] == "60"


def test_a_user_without_schema_rights_can_use_an_existing_schema(database):
    """A user without the right to create a schema can write to a store that an administrator has created."""
    open_engine(database).dispose()
    role = f"limited_{secrets.token_hex(4)}"
    change(database, f"create role {role} login password '{WORD}'")
    change(database, f"grant usage on schema run_specialist to {role}")
    change(database, f"grant select, insert on all tables in schema run_specialist to {role}")
    try:
        limited = parsed(database).set(username=role, password=WORD).render_as_string(hide_password=False)
        engine = open_engine(limited)
        add_run(engine, "one")
        engine.dispose()
        change(database, f"revoke usage on schema run_specialist from {role}")
        assert "permission denied for schema run_specialist" in refusal(limited)
        change(database, "drop schema run_specialist cascade")
        assert "permission denied for database" in refusal(limited)
    finally:
        change(database, f"drop owned by {role}")
        change(database, f"drop role {role}")


def test_opening_waits_for_another_process_creating_the_store(database, monkeypatch):
    """Opening waits for another process that is creating the store, up to a timeout."""
    monkeypatch.setattr("run_specialist.store.postgresql.WAIT", 1)
    with connection(database) as held:
        held.execute(f"select pg_advisory_lock({location.APPLICATION_ID})")
        assert "lock timeout" in refusal(database)


BATCH = StoredBatch("b1", "looker", "What does {input} say?", 5.0, {"file": "content"}, cost_limit=2.5, project="/p")
NUMBERED = "select run_id, number, state, takeovers from items order by run_id"


def item(name, number):
    """Return an item whose run is named by its input."""
    return StoredItem(f"b1-{name}", number, name, f"What does {name} say?")


@pytest.fixture
def book(store_url):
    """Return a writer of batches in a new store, once on each kind of database."""
    with BatchWriter(store_url) as opened:
        yield opened


def test_a_batch_and_its_items_are_stored(store_url, book):
    """Each value of a batch and of its items is in its column."""
    assert book.put(BATCH, [item("a", 1), StoredItem("b1-x", 2, {"é": [1, None]}, "\0\udcff")]) == 2
    assert ask(store_url, "select specialist, model, project, created_at, cost_limit, state from batches") == [
        ("looker", None, "/p", 5.0, 2.5, "open")
    ]
    ((question, frozen, reason),) = ask(store_url, "select question, frozen, reason from batches")
    assert [unpacked(one) for one in (question, frozen, reason)] == [BATCH.question, '{"file":"content"}', None]
    assert ask(store_url, NUMBERED) == [("b1-a", 1, "waiting", 0), ("b1-x", 2, "waiting", 0)]
    texts = ask(store_url, "select input, question from items order by number")
    assert [tuple(map(unpacked, row)) for row in texts] == [('"a"', "What does a say?"), ('{"é":[1,null]}', "\0\udcff")]


def test_a_changed_call_gives_new_numbers(store_url, book):
    """Items that the newest call does not have lose their number; new ones are added, moved ones keep their state."""
    book.put(BATCH, [item("a", 1), item("b", 2)])
    book.mark("b1", "b1-b", "begun")
    book.put(BATCH, [item("b", 1), item("c", 2)])
    assert ask(store_url, NUMBERED) == [
        ("b1-a", None, "waiting", 0),
        ("b1-b", 1, "begun", 0),
        ("b1-c", 2, "waiting", 0),
    ]


def test_a_cancelled_batch_can_be_called_again(store_url, book):
    """Cancelling spares the items that have begun; the same call again opens the batch, and its items wait."""
    book.put(BATCH, [item("a", 1), item("b", 2)])
    book.mark("b1", "b1-a", "begun")
    book.set_state("b1", "cancelled", "by hand")
    assert ask(store_url, NUMBERED) == [("b1-a", 1, "begun", 0), ("b1-b", 2, "cancelled", 0)]
    assert unpacked(ask(store_url, "select reason from batches")[0][0]) == "by hand"
    book.put(BATCH, [item("a", 1), item("b", 2)])
    assert ask(store_url, NUMBERED) == [("b1-a", 1, "begun", 0), ("b1-b", 2, "waiting", 0)]
    assert ask(store_url, "select state, reason from batches") == [("open", None)]


@pytest.mark.exhaustive
def test_many_items_are_written_in_portions(store_url, book, monkeypatch):
    """Items are read while they are written, a portion at a time, so that their number does not fill the memory."""
    monkeypatch.setattr(batches, "PORTION", 50)
    stored = []

    def reading():
        for number in range(1, 2_001):
            if number % 500 == 0:
                stored.append(ask(store_url, "select count(*) from items")[0][0])
            yield StoredItem(f"b1-{number:04}", number, "x" * 1_000, "y" * 1_000)

    tracemalloc.start()
    assert book.put(BATCH, reading()) == 2_000
    assert tracemalloc.get_traced_memory()[1] < 1_000_000
    tracemalloc.stop()
    assert stored == [450, 950, 1_450, 1_950]
    assert ask(store_url, "select min(number), max(number), count(*) from items") == [(1, 2_000, 2_000)]


@pytest.mark.parametrize(("failures", "patience"), [(3, 60.0), (1_000_000, 0.05)])
def test_an_outage_is_waited_for(store_url, monkeypatch, failures, patience):
    """A write is repeated until the store accepts it, and fails with one line if it never does."""
    left = [failures]
    with BatchWriter(store_url, Backoff(first=0.001, patience=patience)) as book:
        whole = type(book._session).write

        def flaky(self, statement, rows):
            if left[0]:
                left[0] -= 1
                raise StoreOutage("locked")
            return whole(self, statement, rows)

        monkeypatch.setattr(type(book._session), "write", flaky)
        if failures == 3:
            assert book.put(BATCH, [item("a", 1)]) == 1
        else:
            with pytest.raises(StoreUnusable, match=r": locked$"):
                book.put(BATCH, [item("a", 1)])
    assert ask(store_url, NUMBERED) == ([("b1-a", 1, "waiting", 0)] if failures == 3 else [])


def test_the_stored_runs_of_the_newest_call_are_known_with_their_costs(store_url, book):
    """Runs of other batches, and of items that the newest call does not have, are left out."""
    stored = ("b1-a", "b1-b", "b1-gone", "b2-a")
    keep(store_url, **{run_id: run_of(run_id) for run_id in stored})
    costs = dict(ask(store_url, "select run_id, cost_usd from runs"))
    assert len(costs) == 4
    assert all(costs.values())
    book.put(BATCH, [item("gone", 1)])
    book.put(BATCH, [item("a", 1), item("b", 2)])
    assert book.add("b1", [item("new", 3)]) == 1
    book.put(StoredBatch("b2", "looker", "?", 6.0), [StoredItem("b2-a", 1, "a", "?")])
    assert book.begun("b1") == {run_id: costs[run_id] for run_id in ("b1-a", "b1-b")}
    assert book.begun("b3") == {}

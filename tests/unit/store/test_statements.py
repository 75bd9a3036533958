"""The SQL written without SQLAlchemy matches SQLAlchemy's schema."""

import asyncio
import os
import subprocess
import sys
import threading

import pytest
from sqlalchemy.dialects import sqlite
from sqlalchemy.schema import CreateIndex, CreateTable

from run_specialist.store import sqlite as file_session
from run_specialist.store.base import StoreFailure
from run_specialist.store.location import VERSION
from run_specialist.store.schema import sqlite_statements
from run_specialist.store.sqlite import FileSession, open_file
from run_specialist.store.tables import metadata, stamp
from tests.unit.store.records import begun, counts, ended, turn_of, write


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


WITHOUT = """
import asyncio, sys
from run_specialist.store.location import Location
from run_specialist.store.writer import Writer
from tests.unit.store.records import begun, ended, stored, turn_of, write

writer = Writer(Location(sys.argv[1], named=True))
assert asyncio.run(write(writer.journal("run-1"), *begun("run-1"), *turn_of(1), *ended("run-1"))) is None
assert asyncio.run(write(writer.claim(stored("run-1", turns=1)), *turn_of(2))) is None
writer.close()
print({"sqlalchemy", "alembic"} & {*sys.modules})
"""


def test_a_file_is_written_without_importing_a_database_library(tmp_path):
    """A file is created and written without importing a database library, also by a resumed run once it is loaded.

    The import takes as long as an entire offline run.
    """
    url = f"sqlite:///{tmp_path}/runs.db"
    done = subprocess.run([sys.executable, "-c", WITHOUT, url], capture_output=True, text=True, check=False)
    assert (done.stderr, done.stdout) == ("", "set()\n")
    assert counts(url)["turns"] == 2


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


@pytest.mark.anyio
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


def test_an_outcome_is_synced(make_writer, tmp_path, monkeypatch):
    """An outcome is synced even directly after another commit."""
    asked = []
    whole = FileSession.transaction
    monkeypatch.setattr(FileSession, "transaction", lambda self, *, lasting=False: asked.append(lasting) or whole(self))
    writer = make_writer(f"sqlite:///{tmp_path}/runs.db")
    journal = writer.journal("run-1")
    for records in (begun("run-1"), turn_of(1), ended("run-1")[:1]):
        assert asyncio.run(write(journal, *records)) is None
    assert asked == [False, False, True]


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

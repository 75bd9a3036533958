"""The SQL written without SQLAlchemy matches SQLAlchemy's schema."""

import asyncio
import subprocess
import sys

import pytest
from sqlalchemy.dialects import sqlite
from sqlalchemy.schema import CreateIndex, CreateTable

from run_specialist.store import file_session, statements
from run_specialist.store.base import StoreFailure
from run_specialist.store.file_session import FileSession
from run_specialist.store.identity import VERSION
from run_specialist.store.schema import sqlite_statements
from run_specialist.store.sqlite_file import open_file
from run_specialist.store.tables import PackedText, metadata
from run_specialist.store.versions import stamp
from tests.unit.store.records import begun, counts, ended, turn_of, write


def test_a_new_file_gets_the_tables_that_sqlalchemy_would_create():
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


def test_the_packed_columns_are_those_that_sqlalchemy_packs():
    """The packed columns are the same with and without SQLAlchemy, for writing and for reading."""
    packed = {
        name: {column.name for column in table.columns if isinstance(column.type, PackedText)}
        for name, table in metadata.tables.items()
    }
    assert packed == statements.PACKED


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


def test_a_file_is_made_and_written_without_a_database_library(tmp_path):
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
    session = FileSession(open_file(tmp_path / "runs.db", write=True))
    yield session
    session.close()


def level(session):
    """Return the level of `pragma synchronous`: 1 syncs at checkpoints only, 2 at each commit."""
    return session.raw.execute("pragma synchronous").fetchone()[0]


def test_of_commits_in_close_succession_one_is_synced(session, monkeypatch):
    """Commits in quick succession are not all synced: only those after a pause and those that must be durable are."""
    clock = [100.0]
    monkeypatch.setattr(file_session.time, "monotonic", lambda: clock[0])
    seen = []
    for later, lasting in ((0, False), (0, False), (0.06, False), (0.06, False), (0.01, False), (0.01, True)):
        clock[0] += later
        with session.transaction(lasting=lasting):
            seen.append(level(session))
    assert seen == [2, 1, 1, 2, 1, 2]


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
    [("insert into nowhere values (?)", StoreFailure), ("insert into events values (1, 2, 3, ?)", Exception)],
)
def test_what_fails_is_undone(session, statement, error):
    """A failed transaction is rolled back, and the next one finds the connection unchanged."""
    with pytest.raises(error) as raised:  # noqa: PT012, SIM117 - the entire transaction fails
        with session.transaction():
            session.write("insert into alembic_version values (?)", [("kept?",)])
            session.write(statement, [(object() if error is Exception else 1,)])
    assert isinstance(raised.value, StoreFailure) is (error is StoreFailure)
    with session.transaction():
        assert session.read("select version_num from alembic_version where version_num > ?", ("a",)) == []

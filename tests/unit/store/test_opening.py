"""Opening, creating and migrating a store, and the place where it is."""

import asyncio
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from alembic import op
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import create_engine, inspect
from sqlalchemy.exc import DBAPIError

from run_specialist.errors import StoreUnusable
from run_specialist.store import location, postgresql, sqlite, tables
from run_specialist.store.location import NONE, Location, file_of, place, shown
from run_specialist.store.postgresql import parsed
from run_specialist.store.rows import KnownRun
from run_specialist.store.sqlite import FileSession, open_engine
from run_specialist.store.writer import RunJournal
from tests.stores import make_store
from tests.unit.store.opened import add_run, count, refusal, snapshot
from tests.unit.store.records import ask, begun, change, counts, ended, opened, outcome, turn_of, unpacked, write


def test_opening_a_missing_store_to_read_creates_nothing(store_url):
    """Opening a missing store to read creates nothing and fails with a hint how to get a store."""
    assert "there is no store at" in refusal(store_url, write=False)
    assert refusal(store_url, write=False).endswith("yet; the first run creates it")
    path = file_of(store_url)
    assert path is None or not path.exists()


def test_a_reader_cannot_write(store_url):
    """The database itself refuses writes from a reader."""
    open_engine(store_url).dispose()
    reader = open_engine(store_url, write=False)
    with pytest.raises(DBAPIError, match="read"):
        add_run(reader, "one")
    reader.dispose()


def test_a_reader_sees_one_state(store_url):
    """A read transaction sees one consistent state, whatever is committed meanwhile."""
    writer, reader = open_engine(store_url), open_engine(store_url, write=False)
    with reader.connect() as connection:
        assert count(connection) == 0
        add_run(writer, "one")
        assert count(connection) == 0
        connection.rollback()
        assert count(connection) == 1
    writer.dispose()
    reader.dispose()


def test_an_sqlite_store_is_accessible_only_to_its_owner(store):
    """Only the owner can access an SQLite store, since it holds everything that a run has read."""
    engine = open_engine(f"sqlite:///{store}")
    add_run(engine, "one")
    assert stat.S_IMODE(store.parent.stat().st_mode) == 0o700
    assert {file.name for file in store.parent.iterdir()} == {"runs.db", "runs.db-wal", "runs.db-shm"}
    assert {stat.S_IMODE(file.stat().st_mode) for file in store.parent.iterdir()} == {0o600}
    engine.dispose()


def test_sqlite_commits_are_durable_and_the_file_shrinks(store):
    """The SQLite settings are the measured ones: commits are durable and the file shrinks."""
    engine = open_engine(f"sqlite:///{store}")
    with engine.connect() as connection:
        names = ("journal_mode", "synchronous", "busy_timeout", "auto_vacuum")
        assert [connection.exec_driver_sql(f"pragma {name}").scalar() for name in names] == ["wal", 2, 10_000, 2]
    engine.dispose()


def test_an_unfinished_store_is_recreated(store):
    """A store whose creator died in its only commit is recreated.

    Its header says that everything is there, its journal says that nothing is.
    """
    made = bytearray(store.read_bytes())
    made[18:20] = b"\1\1"  # the file is not in WAL mode yet
    store.write_bytes(made)
    magic = bytes.fromhex("d9d505f920a163d7")
    numbers = (0, 1, 0, 512, 4096)  # records, checksum, pages before the commit, bytes in a sector and in a page
    journal = magic + b"".join(number.to_bytes(4) for number in numbers)
    store.with_name("runs.db-journal").write_bytes(journal.ljust(512, b"\0"))
    assert "there is no store" in refusal(f"sqlite:///{store}", write=False)
    engine = open_engine(f"sqlite:///{store}")
    add_run(engine, "one")
    engine.dispose()
    assert {"runs.db"} == set(snapshot(store.parent))


async def test_a_begun_run_is_stored_at_once(writer, store_url):
    """A begun run is stored with its question; its journal says so, and its events count from 1."""
    journal = await asyncio.to_thread(writer.begin, opened("run-1"))
    assert ask(store_url, "select run_id, status from runs") == [("run-1", "running")]
    assert (journal.has_begun, writer.journal("run-2").has_begun) == (True, False)
    _, *events = begun("run-1")
    assert await write(journal, *events, *turn_of(1), *ended("run-1")) is None
    assert ask(store_url, "select status from runs") == [("answered",)]
    assert counts(store_url) == {"runs": 1, "turns": 1, "messages": 3, "calls": 1, "events": 3}
    assert ask(store_url, "select number from events order by number") == [(1,), (2,), (3,)]
    assert len(ask(store_url, "select question from search")) == 1


async def test_a_stored_run_is_left_as_it_is(writer, store_url):
    """Beginning an id that is stored changes nothing, also not its texts for searches."""
    assert await write(writer.journal("run-1"), *begun("run-1"), *ended("run-1")) is None
    before = ask(store_url, "select * from runs"), ask(store_url, "select * from search")
    known = writer.begin(opened("run-1", question="Another?", model="other"))
    assert (known.question, known.model, known.ended) == ("What is known?", "scripted", outcome("run-1"))
    assert (ask(store_url, "select * from runs"), ask(store_url, "select * from search")) == before


async def test_damaged_data_is_one_line(writer, store_url):
    """A run whose data cannot be read is refused in one line that names it."""
    await write(writer.begin(opened("run-1")), *turn_of(1))
    change(store_url, "update runs set frozen = question")
    with pytest.raises(StoreUnusable, match="the data of run-1 cannot be read: JSONDecodeError") as refused:
        writer.look("run-1")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("is_ours", [True, False])
async def test_a_lost_response_does_not_lose_or_steal_the_run(lasting, path, lose_responses, is_ours):
    """If the response to the commit is lost, the retry finds its own run; a run of another process stays theirs."""
    lasting.check()
    theirs = "update runs set owner = 'another'"
    left = lose_responses(FileSession, meanwhile=lambda: is_ours or change(f"sqlite:///{path}", theirs))
    found = lasting.begin(opened("run-1"))
    assert left == []
    assert isinstance(found, RunJournal if is_ours else KnownRun)
    assert isinstance(lasting.begin(opened("run-1")), KnownRun)


def test_the_flag_overrides_the_environment_and_the_default(monkeypatch, tmp_path):
    """The flag overrides the environment variable, which overrides the default; the default is not explicit."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.delenv("SPECIALIST_STORE", raising=False)
    default = place(None)
    assert not default.named
    assert default.url.startswith("sqlite:///")
    assert default.url.endswith("run-specialist/runs.db") or os.name == "nt"
    monkeypatch.setenv("SPECIALIST_STORE", "postgresql://here/runs")
    assert place(None) == Location("postgresql://here/runs", named=True)
    assert place("") == Location("postgresql://here/runs", named=True)
    assert place("postgresql://there/runs") == Location("postgresql://there/runs", named=True)
    monkeypatch.setenv("SPECIALIST_STORE", "")
    assert place(None) == default


def test_a_plain_path_is_an_sqlite_file(monkeypatch, tmp_path):
    """A path without a scheme is an SQLite file; it is made absolute, so changing the directory does no harm."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/somebody")
    assert place("runs.db").url == f"sqlite:///{tmp_path}/runs.db"
    assert place("sqlite:///runs.db").url == f"sqlite:///{tmp_path}/runs.db"
    assert place("sqlite:////var/runs.db").url == "sqlite:////var/runs.db"
    assert place("~/runs.db").url == "sqlite:////home/somebody/runs.db"
    assert place("~no-such-user/runs.db").url == f"sqlite:///{tmp_path}/~no-such-user/runs.db"
    assert shown(place("runs.db").url) == f"{tmp_path}/runs.db"


@pytest.mark.parametrize("word", ["none", "None"])
def test_none_turns_storing_off(word):
    """`none` turns storing off and is not mistaken for a file name."""
    assert place(word) == Location(NONE, named=True)


@given(st.text(st.characters(codec="ascii", min_codepoint=33), min_size=1).filter(lambda word: word not in "***:@/"))
def test_a_password_is_never_shown(password):
    """A password is never shown, whether it is in front of the host or in the query string."""
    password = f"<{password}>"
    assert password not in shown(f"postgresql://me:{password}@host:5432/runs")
    if "&" not in password:
        assert password not in shown(f"postgresql://me@host/runs?sslmode=require&password={password}")


FOLDER = Path(tables.__file__).parent / "migrations"
REVISION = """
from alembic import op
from sqlalchemy import Column, String

revision, down_revision = "0002", "0001"


def upgrade():
    op.add_column("runs", Column("added", String))
    op.create_index("runs_by_added", "runs", ["added"])
"""


@pytest.fixture
def release(tmp_path, monkeypatch):
    """Return a function after which the program has one more revision of the tables."""

    def go():
        shutil.copytree(FOLDER, tmp_path / "migrations")
        (tmp_path / "migrations/versions/0002_added.py").write_text(REVISION)
        monkeypatch.setattr(tables, "MIGRATIONS", str(tmp_path / "migrations"))
        for module in (tables, sqlite, postgresql):
            monkeypatch.setattr(module, "VERSION", location.VERSION + 1)

    return go


def looking(url):
    """Return a plain SQLAlchemy engine that finds the tables without naming their schema."""
    if file_of(url):
        return create_engine(url)
    return create_engine(parsed(url).update_query_dict({"options": f"-csearch_path={location.NAMESPACE}"}))


def differences(url):
    """Return the differences between the tables of a store and the schema in the code, as found by Alembic."""
    engine = looking(url)
    with engine.connect() as connection:
        found = compare_metadata(MigrationContext.configure(connection), tables.metadata)
    engine.dispose()
    return found


def columns(url):
    """Return the column names of `runs`."""
    engine = looking(url)
    names = {column["name"] for column in inspect(engine).get_columns("runs")}
    engine.dispose()
    return names


def test_the_schema_version_is_the_number_of_revisions():
    """The schema version is the number of revisions, and the revisions are named by it."""
    assert [file.name[:4] for file in sorted((FOLDER / "versions").glob("0*.py"))] == [
        f"{number:04}" for number in range(1, location.VERSION + 1)
    ]


def test_a_new_store_equals_a_migrated_one(store_url, tmp_path):
    """The statements that create a store, and the revisions, make the same tables, columns and indexes."""
    open_engine(store_url).dispose()
    assert differences(store_url) == []
    migrated = create_engine(f"sqlite:///{tmp_path}/migrated.db")
    with migrated.begin() as connection:
        tables.upgrade(connection)
    migrated.dispose()
    assert differences(f"sqlite:///{tmp_path}/migrated.db") == []


@pytest.mark.parametrize("write", [True, False])
def test_an_older_store_is_migrated_and_keeps_its_rows(store_url, release, write):
    """Opening a store to read migrates it too."""
    make_store(store_url, "one", "two")
    release()
    assert "added" not in columns(store_url)
    open_engine(store_url, write=write).dispose()
    assert "added" in columns(store_url)
    kept = ask(store_url, "select run_id, question from runs order by run_id")
    assert [(run_id, unpacked(question)) for run_id, question in kept] == [("one", "Why?"), ("two", "Why?")]


def test_a_migration_that_breaks_off_changes_nothing(store_url, release, monkeypatch):
    """If the second statement of a migration fails, the first is undone; the next opening does the entire migration."""

    def fail(*args):
        raise KeyboardInterrupt

    make_store(store_url, "one")
    before = columns(store_url)
    release()
    with monkeypatch.context() as patch:
        patch.setattr(op, "create_index", fail)
        with pytest.raises(KeyboardInterrupt):
            open_engine(store_url)
    assert columns(store_url) == before
    open_engine(store_url, write=False).dispose()
    assert ask(store_url, "select run_id from runs") == [("one",)]
    assert "added" in columns(store_url)


OPENED = """
import sys
from run_specialist.store.sqlite import open_engine
open_engine(sys.argv[1]).dispose()
print("alembic" in sys.modules)
"""


@pytest.mark.exhaustive
def test_a_current_store_is_opened_without_alembic(store):
    """A current store is opened without importing Alembic, which takes longer than opening a thousand stores."""
    assert subprocess.check_output([sys.executable, "-c", OPENED, f"sqlite:///{store}"], text=True) == "False\n"

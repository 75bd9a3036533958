"""Stores that are refused or cannot be written, and what that costs a run."""

import asyncio
import os
import shutil
import sqlite3
import sys
import tempfile
import threading
from functools import partial
from pathlib import Path

import pytest

from run_specialist.errors import StoreUnusable
from run_specialist.installation import adding
from run_specialist.record.messages import Message
from run_specialist.store import ledger, location, sqlite
from run_specialist.store.ledger import Ledger
from run_specialist.store.location import APPLICATION_ID
from run_specialist.store.sqlite import open_engine
from tests.stores import without_privileges
from tests.unit.store.opened import add_run, count, refusal, snapshot
from tests.unit.store.records import ask, begun, checkpointed, counts, ended, received, returned, turn_of, write


def foreign(path, number=0, version=0):
    """Create a database of another program, with a table of the same name."""
    with sqlite3.connect(path) as connection:
        connection.execute("create table runs (run_id)")
        connection.execute(f"pragma application_id = {number}")
        connection.execute(f"pragma user_version = {version}")
    connection.close()


newer = partial(foreign, number=APPLICATION_ID, version=99)


@pytest.mark.parametrize("write", [True, False])
@pytest.mark.parametrize(
    ("make", "said"),
    [
        (foreign, "is the database of another program"),
        (newer, "was written by a newer run-specialist (its tables are of version 99, this one knows"),
        (lambda path: path.write_text("dear diary, " * 100), "is not an SQLite database"),
        (lambda path: path.write_text("SQLite format 3"), "is not an SQLite database"),
    ],
)
def test_a_foreign_file_or_newer_store_is_left_unchanged(tmp_path, make, said, write):
    """A foreign file or a newer store is refused without changing a byte or creating a file beside it."""
    path = tmp_path / "runs.db"
    make(path)
    before = snapshot(tmp_path)
    assert refusal(f"sqlite:///{path}", write=write).startswith(f"{path} {said}")
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize("write", [True, False])
def test_a_damaged_store_is_refused(store, write):
    """A damaged store, here a file cut in half, is refused and left unchanged."""
    os.truncate(store, store.stat().st_size // 2)
    before = store.read_bytes()
    assert refusal(f"sqlite:///{store}", write=write).startswith(f"{store} is damaged")
    assert store.read_bytes() == before


def test_a_newer_version_only_in_the_wal_is_refused(store):
    """A newer store is refused even if its new version is still only in the WAL and not in the header."""
    writer = sqlite3.connect(store)
    writer.execute("pragma user_version = 99")
    assert int.from_bytes(store.read_bytes()[60:64]) == location.VERSION
    before = store.read_bytes()
    assert "newer" in refusal(f"sqlite:///{store}")
    assert store.read_bytes() == before
    writer.close()


def test_a_path_that_is_no_regular_file_is_refused(tmp_path):
    """A folder, a pipe and a path below a file are each refused with their own message."""
    (tmp_path / "file").touch()
    os.mkfifo(tmp_path / "pipe")
    assert refusal(f"sqlite:///{tmp_path}") == f"{tmp_path} is a folder; use a file in it, e.g. {tmp_path}/runs.db"
    assert "is not a regular file" in refusal(f"sqlite:///{tmp_path}/pipe")
    assert refusal(f"sqlite:///{tmp_path}/file/runs.db") == (
        f"{tmp_path}/file/runs.db cannot be opened: Not a directory; choose another store with `store`"
    )
    assert "cannot be opened: embedded null byte" in refusal(f"sqlite:///{tmp_path}/a\0b")


def test_a_locked_store_is_waited_for_and_refused(store, monkeypatch):
    """A locked store is waited for and then refused, before any request to a model."""
    monkeypatch.setattr(sqlite, "WAIT", 0.05)
    other = sqlite3.connect(store, isolation_level=None)
    other.execute("begin immediate")
    assert "locked by another program" in refusal(f"sqlite:///{store}")
    other.close()


@pytest.fixture
def open_to_all():
    """Return a folder that other users can read."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder
        folder.chmod(0o755)


def test_a_read_only_store_can_be_read(open_to_all):
    """A read-only store can be read, even in a read-only folder; writing is refused and the error names the path."""
    path = open_to_all / "runs.db"
    engine = open_engine(f"sqlite:///{path}")
    add_run(engine, "one")
    engine.dispose()
    path.chmod(0o444)
    open_to_all.chmod(0o555)
    before = snapshot(open_to_all)
    with without_privileges():
        assert f"cannot be written: no write permission on {path}" in refusal(f"sqlite:///{path}")
        reader = open_engine(f"sqlite:///{path}", write=False)
        with reader.connect() as connection:
            assert count(connection) == 1
        reader.dispose()
    assert snapshot(open_to_all) == before


def test_a_store_that_cannot_be_created_is_refused(open_to_all):
    """A store that cannot be created is refused and leaves no files behind."""
    open_to_all.chmod(0o555)
    with without_privileges():
        assert f"cannot be written: no write permission on {open_to_all}" in refusal(f"sqlite:///{open_to_all}/runs.db")
        assert "cannot be opened: Permission denied" in refusal(f"sqlite:///{open_to_all}/new/runs.db")
    assert not list(open_to_all.iterdir())


@pytest.mark.parametrize(
    "url", ["sqlite://", "sqlite:///:memory:", "sqlite://runs.db", "mysql://me:secret@host/runs", "postgresql:/runs"]
)
def test_a_url_that_names_no_store_is_refused(url):
    """A URL that names no store is refused; the error lists the three ways to name one and hides the password."""
    said = refusal(url)
    assert "is not a valid store; use a path, sqlite:///FILE, or postgresql://" in said
    assert "secret" not in said


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("postgresql://me:secret@127.0.0.1:1/runs", "Connection refused"),
        ("postgresql+asyncpg://me:secret@127.0.0.1:1/runs", "Connection refused"),
        ("postgresql://me:p@secret@127.0.0.1/runs", "write an @ in the password as %40"),
        ("postgresql://me:secret@127.0.0.1:port/runs", "is not a valid URL"),
        ("postgresql://me:secret@127.0.0.1/runs?colour=secretly", 'invalid connection option "colour"'),
    ],
)
def test_an_unreachable_database_is_refused(url, said):
    """An unreachable database is refused with the reason and without the password."""
    pytest.importorskip("psycopg", reason="the PostgreSQL driver is not installed")
    refused = refusal(url)
    assert said in refused
    assert "secret" not in refused.replace("colour=secretly", "")


def test_a_missing_postgresql_driver_names_the_extra_to_install(monkeypatch):
    """Without its driver, a PostgreSQL URL is refused and the error names the extra to install."""
    monkeypatch.setitem(sys.modules, "psycopg", None)
    assert refusal("postgresql://me:secret@host/runs") == (
        f"the PostgreSQL driver is not installed; {adding('postgres')}"
    )


BROKEN = {
    "below a file": lambda path: (path.parent / "file").write_text("") or path.parent / "file" / "runs.db",
    "a folder": lambda path: path.mkdir() or path,
    "no database": lambda path: path.write_text("Notes, and no database at all. " * 9) and path,
    "not ours": lambda path: foreign(path) or path,
    "newer": lambda path: newer(path) or path,
    "a device": lambda path: "/dev/full",
}


@pytest.mark.parametrize("broken", BROKEN)
async def test_a_store_that_cannot_be_opened_causes_one_warning(path, make_writer, broken):
    """If a store cannot be opened, each run gets one warning that names the path, and the path is not changed."""
    broken_path = BROKEN[broken](path)
    before = path.read_bytes() if path.is_file() else None
    writer = make_writer(f"sqlite:///{broken_path}")
    for run_id in ("run-1", "run-2"):
        journal = writer.journal(run_id)
        told = await write(journal, *begun(run_id))
        assert told
        assert told.startswith("this run is not stored: ")
        assert str(broken_path) in told
        assert "\n" not in told
        assert await write(journal, *turn_of(1), *ended(run_id)) is None
    with pytest.raises(StoreUnusable) as refused:
        writer.check()
    assert told == f"this run is not stored: {refused.value}"
    assert (path.read_bytes() if path.is_file() else None) == before
    assert not list(path.parent.glob("*.owners"))


def with_pragma(monkeypatch, pragma):
    """Execute a pragma at the start of each connection of a writer."""
    whole = ledger.open_session

    def opened_so(url):
        session = whole(url)
        session.raw.execute(pragma)
        return session

    monkeypatch.setattr(ledger, "open_session", opened_so)


async def test_a_full_disk_causes_one_warning_and_keeps_stored_turns(monkeypatch, lasting, path):
    """On a full disk every run is warned once from which turn on it is not stored, and none retries.

    Turns stored before that stay intact.
    """
    with_pragma(monkeypatch, "pragma max_page_count = 60")
    journal, other = lasting.journal("run-1"), lasting.journal("run-2")
    for records in (begun("run-1"), turn_of(1), turn_of(2)):
        assert await write(journal, *records) is None
    noise = "".join(map(chr, range(0x4E00, 0x9E00)))
    told = await write(journal, received(3), returned(3, noise * 9), checkpointed(3, 4, [Message.user(noise)]))
    assert told == f"this run is not stored from turn 3 on: {path}: database or disk is full"
    assert await write(journal, *turn_of(4)) is None
    assert counts(f"sqlite:///{path}")["turns"] == 2
    assert ask(f"sqlite:///{path}", "pragma integrity_check") == [("ok",)]
    assert await write(other, *begun("run-2")) == f"this run is not stored: {path}: database or disk is full"
    with pytest.raises(StoreUnusable, match="database or disk is full"):
        lasting.check()


async def test_a_locked_store_causes_one_warning(monkeypatch, lasting, path):
    """A store locked by another process costs one warning, after the wait for the lock and one retry."""
    with_pragma(monkeypatch, "pragma busy_timeout = 1")
    journal = lasting.journal("run-1")
    assert await write(journal, *begun("run-1"), *turn_of(1)) is None
    with sqlite3.connect(path, isolation_level=None) as other:
        other.execute("begin immediate")
        told = await write(journal, *ended("run-1"))
        other.execute("rollback")
    other.close()
    assert told == f"the end of this run is not stored: {path}: database is locked"
    assert ask(f"sqlite:///{path}", "select status from runs") == [("running",)]


@pytest.mark.parametrize("again", [False, True], ids=["gone", "another in its place"])
async def test_a_deleted_store_is_noticed(lasting, path, again):
    """The writer notices a deleted database file, though SQLite itself would accept every commit silently."""
    journal = lasting.journal("run-1")
    assert await write(journal, *begun("run-1"), *turn_of(1)) is None
    for file in path.parent.glob("runs.db*"):
        shutil.rmtree(file) if file.is_dir() else file.unlink()
    if again:
        path.write_bytes(b"")
    told = await write(journal, *ended("run-1"))
    assert told == f"the end of this run is not stored: {path} was deleted during the run"


async def test_an_unexpected_exception_releases_all_waiting_runs(monkeypatch, lasting):
    """An unexpected exception on the writer's thread releases all waiting runs and causes one warning."""

    def fail(self, batch):
        raise SystemExit("a\nb")

    monkeypatch.setattr(Ledger, "write_batch", fail)
    journals = [lasting.journal(f"run-{number}") for number in range(3)]
    told = await asyncio.gather(*(write(journal, *begun(journal.run_id)) for journal in journals))
    assert {reason.partition(": ")[0] for reason in told} == {"this run is not stored"}
    assert not any("\n" in reason for reason in told)
    assert await write(journals[0], *turn_of(1)) is None


async def test_a_thread_that_cannot_start_causes_one_warning(monkeypatch, lasting, path):
    """If the thread cannot be started because of a thread limit, the run gets one warning."""

    def fail(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", fail)
    for run_id in ("run-1", "run-2"):
        told = await write(lasting.journal(run_id), *begun(run_id))
        assert told == f"this run is not stored: {path}: can't start new thread"

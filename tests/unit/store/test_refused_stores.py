import os
import sqlite3
import sys
import tempfile
from pathlib import Path

import pytest

from run_specialist.installation import adding
from run_specialist.store import location, sqlite
from run_specialist.store.sqlite import open_engine
from tests.stores import without_privileges
from tests.unit.store.opened import add_run, count, refusal, snapshot


@pytest.fixture
def store(tmp_path):
    """Create a store in an SQLite file, close it, and return its path."""
    path = tmp_path / "store" / "runs.db"
    open_engine(f"sqlite:///{path}").dispose()
    return path


def foreign(path):
    """Create a database of another program, with a table of the same name."""
    with sqlite3.connect(path) as connection:
        connection.execute("create table runs (distance real)")
    connection.close()


def from_the_future(path):
    """Create a store of version 99."""
    open_engine(f"sqlite:///{path}").dispose()
    with sqlite3.connect(path) as connection:
        connection.execute("pragma user_version = 99")
    connection.close()


def a_text(path):
    """Create a file that is not a database."""
    path.write_text("dear diary, " * 100)


def a_short_text(path):
    """Create a file that is shorter than the header of SQLite."""
    path.write_text("SQLite format 3")


def cut_in_half(path):
    """Create a store whose file is truncated to half its size."""
    open_engine(f"sqlite:///{path}").dispose()
    os.truncate(path, path.stat().st_size // 2)


@pytest.mark.parametrize("write", [True, False])
@pytest.mark.parametrize(
    ("make", "said"),
    [
        (foreign, "is the database of another program"),
        (from_the_future, "was written by a newer run-specialist (its tables are of version 99, this one knows"),
        (a_text, "is not an SQLite database"),
        (a_short_text, "is not an SQLite database"),
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
def test_a_damaged_store_is_refused(tmp_path, write):
    """A damaged store is refused and left unchanged."""
    path = tmp_path / "runs.db"
    cut_in_half(path)
    before = path.read_bytes()
    assert refusal(f"sqlite:///{path}", write=write).startswith(f"{path} is damaged")
    assert path.read_bytes() == before


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


def test_a_store_without_read_permission_is_refused(open_to_all):
    """A store without read permission is refused and the error names the reason."""
    path = open_to_all / "runs.db"
    open_engine(f"sqlite:///{path}").dispose()
    path.chmod(0)
    with without_privileges():
        assert "cannot be opened: Permission denied" in refusal(f"sqlite:///{path}", write=False)


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
        ("postgres://me:secret@127.0.0.1:1/runs", "Connection refused"),
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

import stat

import pytest
from sqlalchemy.exc import DBAPIError

from run_specialist.store.location import file_of
from run_specialist.store.sqlite import open_engine
from tests.unit.store.opened import add_run, count, open_at_once, refusal, snapshot


@pytest.fixture
def store(tmp_path):
    """Create a store in an SQLite file, close it, and return its path."""
    path = tmp_path / "store" / "runs.db"
    open_engine(f"sqlite:///{path}").dispose()
    return path


def test_a_created_store_can_be_read_by_the_next_engine(store_url):
    """A store created by one engine can be read by the next, on either database."""
    first = open_engine(store_url)
    add_run(first, "one")
    first.dispose()
    second = open_engine(store_url)
    add_run(second, "two")
    with second.begin() as connection:
        assert count(connection) == 2
    second.dispose()


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


def test_eight_processes_create_one_store(store_url):
    """Eight processes that create one store at the same time all succeed."""
    assert open_at_once(store_url, 8) == ["ok"] * 8
    engine = open_engine(store_url, write=False)
    with engine.connect() as connection:
        assert count(connection) == 0
    engine.dispose()


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

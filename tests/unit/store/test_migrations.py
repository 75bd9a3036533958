import asyncio
import json
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from alembic import op
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import create_engine, inspect, select, text

from run_specialist.store import identity, tables, versions
from run_specialist.store.location import file_of
from run_specialist.store.opening import open_engine
from run_specialist.store.packing import pack
from run_specialist.store.postgresql import parsed
from run_specialist.store.reader import Store
from run_specialist.store.selection import Selection
from run_specialist.views.report import report
from tests.stores import make_first_version
from tests.unit.store.finished_runs import write
from tests.unit.store.opened import open_at_once
from tests.unit.store.records import ask, begun, change, ended, opened, turn_of

REVISIONS = Path(versions.__file__).parent / "migrations" / "versions"


def looking(url):
    """Return a plain SQLAlchemy engine that finds the tables without naming their schema."""
    if file_of(url):
        return create_engine(url)
    return create_engine(parsed(url).update_query_dict({"options": f"-csearch_path={identity.NAMESPACE}"}))


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


def run_ids(url):
    """Return id, parent and question of all runs in a store."""
    engine = open_engine(url, write=False)
    table = tables.runs.c
    with engine.connect() as connection:
        rows = connection.execute(select(table.run_id, table.parent_id, table.question)).all()
    engine.dispose()
    return sorted(tuple(row) for row in rows)


def test_the_schema_version_is_the_number_of_revisions():
    """The schema version is the number of revisions, and the revisions are named by it."""
    assert [file.name[:4] for file in sorted(REVISIONS.glob("0*.py"))] == [
        f"{number:04}" for number in range(1, identity.VERSION + 1)
    ]


def test_a_new_store_equals_a_migrated_one(store_url):
    """A new store has the same tables, columns and indexes as a migrated one."""
    open_engine(store_url).dispose()
    assert differences(store_url) == []


def test_an_older_store_is_migrated(store_url):
    """An older store differs from a new one before its migration and not after it."""
    make_first_version(store_url)
    assert differences(store_url)
    open_engine(store_url).dispose()
    assert differences(store_url) == []


@pytest.mark.parametrize("write", [True, False])
def test_a_migrated_store_keeps_its_rows(store_url, write):
    """Runs of the first version keep their content and have no parent; opening a store to read migrates it too."""
    make_first_version(store_url, "one", "two")
    open_engine(store_url, write=write).dispose()
    assert run_ids(store_url) == [("one", None, "Why?"), ("two", None, "Why?")]


def test_a_migrated_store_knows_projects_and_answers(store_url, tmp_path):
    """Project, version and duration of older runs are read from what they stored, as far as it can be read."""
    (tmp_path / "p" / ".git").mkdir(parents=True)
    (tmp_path / "p" / "docs").mkdir()
    make_first_version(store_url, "whole", "broken", "empty")
    frozen = json.dumps({"root": f"{tmp_path}/p/docs", "digest": "abc", "pad": "x" * 5_000})
    told = json.dumps({"answer": "At NIGHT.", "duration_s": 2.5})
    engine = create_engine(store_url) if file_of(store_url) else looking(store_url)
    with engine.begin() as connection:
        change = text("update runs set frozen = :frozen, outcome = :told where run_id = :run_id")
        connection.execute(change, {"run_id": "whole", "frozen": pack(frozen), "told": pack(told)})
        connection.execute(change, {"run_id": "broken", "frozen": b"\1not zlib", "told": None})
    engine.dispose()
    with Store(store_url) as store:
        found = {run.run_id: (run.project, run.duration_s) for run in store.runs()}
        assert found == {"whole": (f"{tmp_path}/p", 2.5), "broken": (None, None), "empty": (None, None)}
        assert [run.run_id for run in store.trees(Selection(words="night WHY?"))] == ["whole"]
        assert len(store.trees(Selection(words="why"))) == 3
        assert {run.digest for run in store.past("looker") if run.outcome} == {"abc"}


def test_the_file_header_has_the_new_version_at_once(tmp_path):
    """After a migration the file header has the new version, even while another process has the store open."""
    make_first_version(f"sqlite:///{tmp_path}/runs.db")
    other = sqlite3.connect(tmp_path / "runs.db")
    other.execute("select * from runs").fetchall()
    open_engine(f"sqlite:///{tmp_path}/runs.db").dispose()
    assert int.from_bytes((tmp_path / "runs.db").read_bytes()[60:64]) == identity.VERSION
    other.close()


@pytest.mark.parametrize("before", range(2, identity.VERSION))
def test_each_older_version_is_migrated(store_url, before):
    """A store of each version between the first and this one gets the tables of a new store, and keeps its rows."""
    make_first_version(store_url, "one")
    engine = looking(store_url)
    with engine.begin() as connection:
        versions.upgrade(connection, f"{before:04}")
        if file_of(store_url):
            connection.exec_driver_sql(f"pragma user_version = {before}")
    engine.dispose()
    assert differences(store_url)
    open_engine(store_url).dispose()
    assert differences(store_url) == []
    assert run_ids(store_url) == [("one", None, "Why?")]


def test_a_run_from_before_batches_is_resumed_and_reported(store_url, make_writer):
    """An interrupted run of a store without batches is loaded, reported and resumed after the migration."""
    settings = {"share_budget": True, "tool_calls_limit": 30}
    with closing(make_writer(store_url)) as writer:
        frozen = {"system": "Look.", "settings": settings, "tools": [], "root": "/", "origins": {}}
        write(writer, old=[opened("old", frozen=frozen), *begun("old")[1:], *turn_of(1)])
    dropped = [f"drop table {name}" for name in ("changes", "gates", "items", "batches")]
    for statement in (*dropped, "update alembic_version set version_num = '0003'"):
        change(store_url, statement)
    if file_of(store_url):
        change(store_url, "pragma user_version = 3")
        change(store_url, "pragma wal_checkpoint(truncate)")
    with Store(store_url) as store:
        found = store.load("old")
        assert (found.status, len(found.turns)) == ("interrupted", 1)
        assert "What is known?" in report(found)
    with closing(make_writer(store_url)) as writer:
        journal = writer.claim(found)
        for record in (*turn_of(2), *ended("old")):
            journal.write(record)
        assert asyncio.run(journal.committed()) is None
    with Store(store_url) as store:
        assert (store.load("old").status, len(store.load("old").turns)) == ("answered", 2)


@pytest.mark.parametrize("has_gates", [True, False])
def test_the_gates_of_an_earlier_fleet_are_kept(store_url, has_gates):
    """A fleet that was set up before had its gates beside the queue; they move, and the old table is removed."""
    make_first_version(store_url, "one")
    engine = looking(store_url)
    is_server = file_of(store_url) is None
    with engine.begin() as connection:
        versions.upgrade(connection, "0004")
        if is_server and has_gates:
            connection.exec_driver_sql("create schema run_specialist_queue")
            connection.exec_driver_sql(
                "create table run_specialist_queue.gates as select 'b1'::varchar as batch_id, 2e9::float as until, "
                "0::float as probe, 3 as failures, '429'::varchar as reason"
            )
        elif not is_server:
            connection.exec_driver_sql("pragma user_version = 4")
    engine.dispose()
    open_engine(store_url).dispose()
    kept = [("b1", 2e9, 3, "429")] if is_server and has_gates else []
    assert ask(store_url, "select batch_id, until, failures, reason from gates") == kept
    if is_server:
        assert ask(store_url, "select to_regclass('run_specialist_queue.gates')") == [(None,)]
    assert differences(store_url) == []


def test_a_migration_that_breaks_off_changes_nothing(store_url, monkeypatch):
    """If the second statement of a migration fails, the first is undone; the next opening does the entire migration."""

    def fail(*args):
        raise KeyboardInterrupt

    make_first_version(store_url, "one")
    before = columns(store_url)
    with monkeypatch.context() as patch:
        patch.setattr(op, "create_index", fail)
        with pytest.raises(KeyboardInterrupt):
            open_engine(store_url)
    assert columns(store_url) == before
    assert "parent_id" not in before
    assert run_ids(store_url) == [("one", None, "Why?")]


def test_eight_processes_migrate_one_store(store_url):
    """Of eight processes that open an old store, one migrates it, the others wait, and all can use it."""
    make_first_version(store_url, "one")
    assert open_at_once(store_url, 8, first=["alembic.command"]) == ["ok"] * 8
    assert run_ids(store_url) == [("one", None, "Why?")]
    assert differences(store_url) == []


def test_two_stores_are_migrated_at_once(tmp_path):
    """Two threads can migrate two stores at the same time, although Alembic keeps its context in globals."""
    urls = [f"sqlite:///{tmp_path}/{number}.db" for number in range(6)]
    for url in urls:
        make_first_version(url, url)
    with ThreadPoolExecutor(len(urls)) as threads:
        for engine in threads.map(open_engine, urls):
            engine.dispose()
    for url in urls:
        assert run_ids(url) == [(url, None, "Why?")]
        assert differences(url) == []


def test_a_store_with_an_old_header_is_not_migrated_twice(tmp_path, monkeypatch):
    """A process killed before the checkpoint leaves an old header and a new WAL; nothing is migrated twice."""
    url = f"sqlite:///{tmp_path}/runs.db"
    make_first_version(url, "one")
    reader = create_engine(url)
    with reader.connect() as held:
        # A reader of the old state prevents the checkpoint.
        held.exec_driver_sql("begin")
        held.exec_driver_sql("select * from runs").all()
        monkeypatch.setattr("run_specialist.store.sqlite_file.WAIT", 0.05)
        open_engine(url).dispose()
        assert int.from_bytes((tmp_path / "runs.db").read_bytes()[60:64]) == 1
        assert run_ids(url) == [("one", None, "Why?")]
    reader.dispose()
    open_engine(url).dispose()
    assert int.from_bytes((tmp_path / "runs.db").read_bytes()[60:64]) == identity.VERSION


def test_a_current_store_is_opened_without_alembic(store_url):
    """A current store is opened without importing Alembic, which takes longer than opening a thousand stores."""
    open_engine(store_url).dispose()
    loaded = open_at_once(store_url, 1, "'alembic' in sys.modules")
    assert loaded == ["False"]

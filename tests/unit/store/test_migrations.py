import shutil
from pathlib import Path

import pytest
from alembic import op
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import create_engine, inspect, select

from run_specialist.store import location, postgresql, sqlite, tables
from run_specialist.store.location import file_of
from run_specialist.store.postgresql import parsed
from run_specialist.store.sqlite import open_engine
from tests.stores import make_store
from tests.unit.store.opened import open_at_once

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
    assert run_ids(store_url) == [("one", None, "Why?"), ("two", None, "Why?")]


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
    assert run_ids(store_url) == [("one", None, "Why?")]
    assert "added" in columns(store_url)


def test_a_current_store_is_opened_without_alembic(store_url):
    """A current store is opened without importing Alembic, which takes longer than opening a thousand stores."""
    open_engine(store_url).dispose()
    loaded = open_at_once(store_url, 1, "'alembic' in sys.modules")
    assert loaded == ["False"]

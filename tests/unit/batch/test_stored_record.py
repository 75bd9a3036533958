"""How a batch is written to a store, and stopped meanwhile."""

import sqlite3

import pytest

from run_specialist.batch import record as stored_record
from run_specialist.batch.record import BatchRecord
from run_specialist.store.batches import StoredBatch
from tests.map_batches import item

pytestmark = pytest.mark.anyio


@pytest.fixture
def path(tmp_path):
    """The file of the store."""
    return tmp_path / "runs.db"


@pytest.fixture
def record(path):
    """A record of the batch `b1`."""

    async def url():
        return f"sqlite:///{path}"

    return BatchRecord(lambda: StoredBatch("b1", "finder", "", 0.0), url)


async def opened(record, count, stopped=lambda: False):
    """Write so many items, and return the runs that are known."""
    begun = await record.open([(f"b1-{number:016x}", item(number)) for number in range(1, count + 1)], stopped)
    await record.aclose()
    return begun


async def test_a_stop_ends_the_writing_of_the_items(record, path, monkeypatch):
    """Nothing is written after the portion under way, and runs of items that were not written again are known."""
    monkeypatch.setattr(stored_record, "PORTION", 2)
    assert await opened(record, 5) == {}
    with sqlite3.connect(path) as store:
        columns = [row[1] for row in store.execute("pragma table_info(runs)") if row[3]]
        values = {"run_id": f"b1-{5:016x}", "started_at": 0.0} | dict.fromkeys(
            (name for name in columns if name not in {"run_id", "started_at"}), 0
        )
        marks = ", ".join("?" * len(values))
        store.execute(f"insert into runs ({', '.join(values)}) values ({marks})", [*values.values()])  # noqa: S608
    portions = iter([False, True])
    assert await opened(record, 5, lambda: next(portions)) == {f"b1-{5:016x}": 0.0}
    with sqlite3.connect(path) as store:
        assert store.execute("select number from items where number is not null order by number").fetchall() == [
            (1,),
            (2,),
        ]


async def test_the_runs_of_the_newest_call_are_known(record):
    """Items that a call does not have are forgotten, so that their runs do not count."""
    assert await opened(record, 3) == {}
    assert await opened(record, 1) == {}

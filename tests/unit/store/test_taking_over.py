"""An interrupted run resumes where it stopped, and only one process works on it at a time."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest

from run_specialist.errors import NotResumable, StoreUnusable
from run_specialist.record.journal import TakenOver
from run_specialist.store.owners import is_alive
from tests.unit.store.records import (
    ask,
    begun,
    change,
    counts,
    ended,
    stored,
    turn_of,
    write,
)

pytestmark = pytest.mark.anyio


@pytest.fixture
def cut_off(make_writer, store_url):
    """Create a run of one turn whose process has died."""
    writer = make_writer(store_url)
    assert asyncio.run(write(writer.journal("run-1"), *begun("run-1"), *turn_of(1))) is None
    writer.close()
    return store_url


async def test_s4_5_an_interrupted_run_is_resumed(cut_off, writer):
    """A resumed run has a living owner, keeps its earlier turns, and continues its event numbers."""
    journal = writer.claim(stored("run-1", turns=1))
    ((status, owner),) = ask(cut_off, "select status, owner from runs")
    assert status == "running"
    assert is_alive(cut_off, owner)
    assert await write(journal, *turn_of(2), *ended("run-1")) is None
    assert counts(cut_off) == {"runs": 1, "turns": 2, "messages": 5, "calls": 2, "events": 5}
    assert ask(cut_off, "select number from events order by number") == [(1,), (2,), (3,), (4,), (5,)]


async def test_a_running_run_cannot_be_taken_over(writer, make_writer, store_url):
    """A running run cannot be taken over by another process or by its own; the error names the owner."""
    journal = writer.journal("run-1")
    await write(journal, *begun("run-1"))
    other = make_writer(store_url)
    for one in (writer, other):
        with pytest.raises(NotResumable, match=r"run-1 is still running: process \d+ on "):
            one.claim(stored("run-1"))
    assert await write(journal, *turn_of(1)) is None
    assert counts(store_url)["turns"] == 1


async def test_the_second_process_to_take_over_a_run_is_refused(cut_off, make_writer):
    """If two processes take over a run, the second gets an error and writes nothing."""
    one, other = make_writer(cut_off), make_writer(cut_off)
    journal = one.claim(stored("run-1", turns=1))
    with pytest.raises(NotResumable, match="run-1 is still running"):
        other.claim(stored("run-1", turns=1))
    assert await write(journal, *turn_of(2)) is None


async def test_one_of_two_simultaneous_takeovers_succeeds(cut_off, make_writer):
    """Of two simultaneous attempts one succeeds and the other gets an error."""

    def reach(writer):
        try:
            writer.claim(stored("run-1", turns=1))
        except NotResumable as error:
            return str(error)
        return "mine"

    with ThreadPoolExecutor(2) as pool:
        told = list(pool.map(reach, [make_writer(cut_off), make_writer(cut_off)]))
    assert told.count("mine") == 1


async def test_a_run_that_advanced_since_it_was_read_is_not_taken_over(cut_off, make_writer):
    """A run that has advanced since it was read is not taken over, and the attempt changes nothing."""
    between = make_writer(cut_off)
    assert await write(between.claim(stored("run-1", turns=1)), *turn_of(2)) is None
    between.close()
    before = ask(cut_off, "select owner, status from runs")
    with pytest.raises(NotResumable, match="another process has already resumed run-1"):
        make_writer(cut_off).claim(stored("run-1", turns=1))
    assert ask(cut_off, "select owner, status from runs") == before


async def test_a_deleted_run_cannot_be_resumed(cut_off, writer):
    """A run that was deleted after it was read cannot be resumed."""
    with pytest.raises(NotResumable, match="run-2 is no longer in "):
        writer.claim(stored("run-2"))


async def test_resuming_from_an_unusable_store_names_the_reason(make_writer, tmp_path):
    """If the store cannot be opened, the error on resuming names the store's reason."""
    (tmp_path / "file").write_text("no folder")
    writer = make_writer(f"sqlite:///{tmp_path}/file/runs.db")
    with pytest.raises(StoreUnusable, match=r"file/runs\.db"):
        writer.claim(stored("run-1"))


async def test_a_run_taken_over_by_another_process_is_no_longer_written(writer, store_url):
    """A process whose run was taken over stops writing it and is warned once; its other runs are still stored."""
    journals = {run_id: writer.journal(run_id) for run_id in ("run-1", "run-2")}
    for run_id, journal in journals.items():
        await write(journal, *begun(run_id), *turn_of(1))
    change(store_url, "update runs set owner = 'another' where run_id = 'run-1'")
    writing = (write(journal, *turn_of(2)) for journal in journals.values())
    lost, kept = await asyncio.gather(*writing, return_exceptions=True)
    assert isinstance(lost, TakenOver)
    assert str(lost) == "this run is not stored from turn 2 on: another process has resumed it, or it was deleted"
    assert kept is None
    assert [counts(store_url, run_id)["turns"] for run_id in journals] == [1, 2]
    assert await write(journals["run-1"], *turn_of(3), *ended("run-1")) is None
    assert ask(store_url, "select status from runs where run_id = 'run-1'") == [("running",)]
    assert counts(store_url, "run-1") == {"runs": 1, "turns": 1, "messages": 3, "calls": 1, "events": 2}


async def test_a_run_deleted_while_running_is_not_recreated(writer, store_url):
    """A run that was deleted while it was running is not created again."""
    journal = writer.journal("run-1")
    await write(journal, *begun("run-1"))
    change(store_url, "delete from runs")
    assert await write(journal, *turn_of(1)) is not None
    assert counts(store_url)["turns"] == 0

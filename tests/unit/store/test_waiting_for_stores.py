"""Waiting for a store ends when it is closed, when the disk hangs, and after a cancellation."""

import asyncio
import subprocess
import sys

import pytest

from run_specialist.store import writer as writers
from run_specialist.store.owners import is_alive
from tests.unit.store.records import (
    ask,
    begun,
    counts,
    turn_of,
    write,
)

pytestmark = pytest.mark.anyio


async def test_closing_writes_queued_records_and_releases_the_lock(make_writer, store_url):
    """Closing writes all queued records, also of unfinished runs, and releases the lock.

    A second close does nothing.
    """
    writer = make_writer(store_url)
    journal = writer.journal("run-1")
    for record in (*begun("run-1"), *turn_of(1), turn_of(2)[0]):
        journal.write(record)
    writer.close()
    writer.close()
    assert counts(store_url) == {"runs": 1, "turns": 1, "messages": 3, "calls": 1, "events": 3}
    ((status, owner),) = ask(store_url, "select status, owner from runs")
    assert status == "running"
    assert not is_alive(store_url, owner)
    assert await write(journal, *turn_of(2)) == "this run is not stored from turn 2 on: the store was closed"
    assert await write(journal, *turn_of(3)) is None
    assert await write(writer.journal("run-2"), *begun("run-2")) == "this run is not stored: the store was closed"


async def test_closing_gives_up_if_the_disk_hangs(monkeypatch, pause_writes, lasting):
    """If the disk hangs, closing gives up after a timeout and a waiting run can be cancelled."""
    monkeypatch.setattr(writers, "PATIENCE_AT_THE_END", 0.01)
    hangs, goes_on = pause_writes()
    waiting = asyncio.ensure_future(write(lasting.journal("run-1"), *begun("run-1")))
    await asyncio.to_thread(hangs.wait)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    lasting.close()
    assert lasting._thread.is_alive()
    goes_on.set()
    lasting._thread.join()


async def test_a_cancelled_waiting_run_does_not_affect_others(pause_writes, lasting, path):
    """If one of two runs that wait for a transaction is cancelled, the other is not affected."""
    begun_to_write, goes_on = pause_writes()
    one, other = (asyncio.ensure_future(write(lasting.journal(run), *begun(run))) for run in ("run-1", "run-2"))
    await asyncio.to_thread(begun_to_write.wait)
    one.cancel()
    goes_on.set()
    assert await other is None
    assert one.cancelled()
    assert counts(f"sqlite:///{path}", "run-2")["runs"] == 1


def test_a_closed_event_loop_does_not_affect_others(pause_writes, lasting, path):
    """If an event loop closes while it waits for the store, the other loops are not affected."""
    begun_to_write, goes_on = pause_writes()

    async def given_up():
        waiting = asyncio.ensure_future(write(lasting.journal("run-1"), *begun("run-1")))
        await asyncio.to_thread(begun_to_write.wait)
        waiting.cancel()

    asyncio.run(given_up())
    goes_on.set()
    assert asyncio.run(write(lasting.journal("run-2"), *begun("run-2"))) is None
    assert counts(f"sqlite:///{path}")["runs"] == 2


FORGETFUL = """
import sys
from run_specialist.store import writer
from run_specialist.store.location import Location
from run_specialist.store.writer import Writer
writer.PATIENCE_AT_THE_END = 100
assert "sqlalchemy" not in sys.modules
from tests.unit.store.records import begun, turn_of
journal = Writer(Location(sys.argv[1], named=True)).journal("run-1")
for record in (*begun("run-1"), *turn_of(1)):
    journal.write(record)
"""


def test_queued_records_are_written_at_exit(store_url):
    """Queued records are written at exit even without close; importing the writer imports no database library."""
    done = subprocess.run([sys.executable, "-c", FORGETFUL, store_url], capture_output=True, text=True, check=False)
    assert (done.stderr, done.returncode) == ("", 0)
    assert counts(store_url) == {"runs": 1, "turns": 1, "messages": 3, "calls": 1, "events": 2}

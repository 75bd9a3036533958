"""A batch that is stopped, left, cancelled or closed aborts the items in progress, and loses no outcome."""

import asyncio

import pytest

from run_specialist.batch.record import BatchRecord
from tests.unit.batch.scripted_items import LIMIT, ScriptedRuns, all_of, batch_of, outcome

pytestmark = pytest.mark.anyio


async def waits(run, item):
    """Work until the batch aborts the run."""
    await run.was_aborted.wait()
    return outcome("aborted")


async def test_a_stop_ends_the_writing_of_the_items():
    """The record is informed while it writes; no item starts, and none is run."""
    heard = []

    class Record(BatchRecord):
        async def open(self, items, stopped):
            heard.append(stopped())
            batch.stop()
            heard.append(stopped())

    runs = ScriptedRuns(waits)
    batch = batch_of(3, runs, record=Record())
    assert await all_of(batch) == {}
    assert (heard, runs.runs, batch.counts.not_run) == ([False, True], {}, 3)


async def test_after_a_stop_outcomes_of_earlier_calls_are_still_passed_on():
    """The rest of the input is looked up, so that a file of answers loses no row."""
    runs = ScriptedRuns(waits, {"b1-0000000000000009": outcome()})
    batch = batch_of(10, runs, at_once=2)
    batch.listen(lambda event: batch.stop() if event.event == "item_started" else None)
    done = await all_of(batch)
    assert done[9].is_earlier
    assert batch.counts.done + batch.counts.not_run == 10


async def test_a_batch_that_was_never_iterated_over_can_be_closed():
    """No item was started, and none can be afterwards."""
    runs = ScriptedRuns(waits)
    batch = batch_of(3, runs)
    await batch.aclose()
    await batch.aclose()
    assert (runs.begun, batch.counts.not_run) == ([], 3)


async def test_a_check_that_hangs_can_be_left():
    """Closing does not wait for items that were not started."""
    runs = ScriptedRuns(waits)
    checking = asyncio.Event()

    async def check():
        checking.set()
        await asyncio.Event().wait()

    runs.check = check
    batch = batch_of(3, runs)
    task = asyncio.create_task(all_of(batch))
    await checking.wait()
    await asyncio.wait_for(batch.aclose(), LIMIT)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

"""A batch begins a few items at a time, yields each end, and counts all of them."""

import asyncio

import pytest

from run_specialist.batch.batch import Batch, Bounds
from run_specialist.errors import AtWork, UsageError
from run_specialist.record.outcome import Exit
from tests.unit.batch.scripted_items import ScriptedRuns, all_of, batch_of, items, outcome

pytestmark = pytest.mark.anyio


async def answers(run, item):
    """Answer every item."""
    run.reply()
    return outcome()


@pytest.mark.parametrize("sized", [True, False])
async def test_every_item_is_answered_a_few_at_a_time(sized):
    """No more than `at_once` items are under way, and all are yielded and counted."""
    runs = ScriptedRuns(answers)
    batch = batch_of(50, runs, sized=sized, at_once=4)
    assert batch.counts.total == (50 if sized else None)
    assert sorted(await all_of(batch)) == list(range(1, 51))
    assert runs.most == 4
    counts = batch.counts
    assert (counts.answered, counts.done, counts.not_run, counts.under_way, counts.total) == (50, 50, 0, 0, 50)
    assert batch.exit_code == Exit.OK
    assert batch.ended_because is None
    assert batch.cost_usd == pytest.approx(0.5)


async def test_items_are_read_as_they_begin_and_a_slow_caller_does_not_pile_up_ends():
    """Of an endless input only a few items are read ahead of the caller."""
    read = 0

    def endless():
        nonlocal read
        for item in items(10_000):
            read = item.number
            yield item

    batch = Batch("b1", endless, ScriptedRuns(answers), Bounds(at_once=3))
    async for done in batch:
        for _ in range(200):
            await asyncio.sleep(0)
        if done.number > 20:
            break
    await batch.aclose()
    assert read <= 21 + 3 * 3


async def test_the_states_of_items_are_counted_by_reason():
    """Failures are counted by their kind, and an item without a run as `usage`."""
    ends = {1: outcome("landed"), 2: outcome("partial"), 3: outcome("failed"), 4: outcome("failed", kind="internal")}

    async def script(run, item):
        return ends.get(item.number) or outcome("aborted")

    runs = ScriptedRuns(script)
    whole = runs.take_up

    async def take_up(item, run_id, lend, *, is_new):
        if item.number == 6:
            raise UsageError("no such folder")
        return await whole(item, run_id, lend, is_new=is_new)

    runs.take_up = take_up
    batch = batch_of(6, runs)
    done = await all_of(batch)
    assert dict(batch.counts.failed) == {"no_answer": 1, "internal": 1, "usage": 1}
    assert (batch.counts.landed, batch.counts.partial, batch.counts.aborted) == (1, 1, 1)
    assert batch.counts.done == 6
    assert (done[6].state, done[6].error, done[6].outcome) == ("failed", "no such folder", None)
    assert done[6].as_row()["state"] == "failed"
    assert batch.exit_code == Exit.NO_ANSWER


async def test_events_tell_what_happens_in_order():
    """The first event is the start, the last one the end, with a start and an end of each item in between."""
    events, of_runs = [], []
    batch = batch_of(2, ScriptedRuns(answers), at_once=1)

    def breaks(event):
        raise ValueError(event)

    batch.listen(breaks)
    batch.listen(lambda event: events.append(event.as_json()))
    batch.listen_runs(lambda number, event: of_runs.append((number, event.event)))
    await all_of(batch)
    assert [event["event"] for event in events] == [
        "batch_started", "item_started", "item_ended", "item_started", "item_ended", "batch_ended",
    ]  # fmt: skip
    assert events[2] == {
        "event": "item_ended", "number": 1, "run_id": "b1-0000000000000001", "state": "answered", "cost_usd": 0.01,
        "error_kind": None, "is_earlier": False,
    }  # fmt: skip
    assert events[-1]["counts"]["answered"] == events[-1]["counts"]["done"] == 2
    assert of_runs == [(1, "reply"), (2, "reply")]


async def test_an_item_at_work_elsewhere_is_tried_again_at_the_end():
    """It comes last; if somebody still works on it, that is its state."""
    tried = []
    runs = ScriptedRuns(answers)
    whole = runs.take_up

    async def take_up(item, run_id, lend, *, is_new):
        tried.append(item.number)
        if item.number == 1 or (item.number == 2 and tried.count(2) == 1):
            raise AtWork("process 7 is at work")
        return await whole(item, run_id, lend, is_new=is_new)

    runs.take_up = take_up
    batch = batch_of(4, runs, at_once=2)
    done = await all_of(batch)
    assert sorted(tried[-2:]) == [1, 2]
    assert (done[1].state, done[1].error) == ("at work elsewhere", "process 7 is at work")
    assert done[2].state == "answered"
    assert batch.counts.at_work_elsewhere == 1
    assert batch.exit_code == Exit.NO_ANSWER


async def test_an_iterator_that_raises_ends_the_batch_after_the_items_under_way():
    """Its error is raised when the items that had begun are yielded."""

    def breaks():
        yield from items(3)
        raise OSError("disk on fire")

    batch, seen = Batch("b1", breaks, ScriptedRuns(answers), Bounds(at_once=5)), []

    async def iterate():
        async for done in batch:
            seen.append(done.number)  # noqa: PERF401 - a comprehension would lose them

    with pytest.raises(OSError, match="disk on fire"):
        await iterate()
    assert sorted(seen) == [1, 2, 3]
    assert batch.counts.under_way == 0


async def test_a_defect_in_one_run_costs_no_other_item():
    """An exception that no run should raise fails its item alone."""

    async def script(run, item):
        if item.number == 2:
            raise RuntimeError("defect")
        return outcome()

    batch = batch_of(4, ScriptedRuns(script), at_once=1)
    done = await all_of(batch)
    assert [done[number].state for number in (1, 2, 3, 4)] == ["answered", "failed", "answered", "answered"]
    assert "internal error: RuntimeError('defect')" in done[2].error


@pytest.mark.parametrize("name", ["at_once", "breaker", "cost_limit", "pause_limit"])
@pytest.mark.parametrize("value", [-1, float("nan")])
def test_a_bound_that_is_too_small_is_refused(name, value):
    """The error names the argument and the value."""
    with pytest.raises(UsageError, match=f"{name} must be at least [01], got {value}"):
        Bounds(**{name: value})


async def test_an_error_that_is_the_same_for_every_item_is_raised():
    """If no run can begin, the batch ends with the error, and no item counts as failed."""
    runs = ScriptedRuns(answers)

    async def take_up(item, run_id, lend, *, is_new):
        raise UsageError("the specialist starts a command that is not trusted")

    runs.take_up = take_up
    batch = batch_of(100, runs, at_once=4)
    with pytest.raises(UsageError, match="not trusted"):
        await all_of(batch)
    assert (batch.counts.failed, batch.counts.not_run, batch.exit_code) == ({}, 100, Exit.USAGE)

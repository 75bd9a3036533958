"""A batch begins a few items at a time, counts all ends, pauses after failures, and shares its cost limit."""

import asyncio
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from run_specialist.batch.batch import Batch, Bounds
from run_specialist.batch.limits import PAUSING, Breaker, Grants
from run_specialist.batch.record import BatchRecord
from run_specialist.errors import AtWork
from run_specialist.record.outcome import Exit
from tests.unit.batch.scripted_items import Clock, ScriptedRuns, all_of, batch_of, failed, items, outcome


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


def opened(kind="rate_limited", retry_after=None, **options):
    """Return a breaker that three failures at time 0 have opened."""
    breaker = Breaker(**options)
    states = [breaker.failed(f"run {number}", kind, "429", retry_after, 0.0) for number in range(3)]
    assert states == [False, False, True]
    return breaker


@pytest.mark.parametrize("kind", sorted(PAUSING))
def test_failures_in_a_row_pause(kind):
    """Three of the same kind open the breaker for half a minute."""
    breaker = opened(kind)
    assert (breaker.pause.kind, breaker.pause.until) == (kind, 30.0)
    assert breaker.wait(10.0) == 20.0
    assert breaker.ended is None


def test_a_success_or_another_kind_breaks_the_row():
    """Only failures in a row count, of the same kind."""
    breaker = Breaker()
    for kind in ("quota", "quota", "overloaded", "quota", "quota"):
        assert not breaker.failed("run", kind, "", None, 0.0)
    breaker.worked()
    assert not breaker.failed("run", "quota", "", None, 0.0)


@pytest.mark.parametrize(("asked", "seconds"), [(7.0, 7.0), (0.0, 1.0), (None, 30.0), (500.0, 500.0)])
def test_the_first_wait_is_that_of_the_server(asked, seconds):
    """A server that asks for no wait at all gets a second."""
    assert opened(retry_after=asked).pause.until == seconds


def test_waits_double_up_to_ten_minutes_until_the_limit_of_the_pause():
    """Each failed probe doubles the wait; the pause never lasts longer than its limit."""
    breaker, now, waits = opened(), 0.0, []
    while breaker.pause:
        waits.append(breaker.pause.until - now)
        now = breaker.pause.until
        assert breaker.begin()
        assert breaker.wait(now) == math.inf
        assert breaker.failed("probe", "quota", "no money", None, now, is_probe=True)
    assert waits == [30, 60, 120, 240, 480, 600, 600, 600, 600, 270]
    assert (now, breaker.ended, breaker.reason) == (3600.0, "quota", "no money")


def test_a_server_that_asks_for_more_than_the_limit_of_the_pause_ends_the_batch():
    """Waiting would be in vain."""
    breaker = opened(retry_after=7200.0)
    assert (breaker.ended, breaker.pause) == ("rate_limited", None)


def test_an_answered_probe_ends_the_pause_and_another_answer_does_not():
    """A reply to a request from before the pause says nothing."""
    breaker = opened()
    assert not breaker.answered(is_probe=False)
    assert breaker.pause is not None
    breaker.begin()
    assert breaker.answered(is_probe=True)
    assert (breaker.pause, breaker.wait(0.0), breaker.begin()) == (None, 0.0, False)
    assert not breaker.failed("run", "rate_limited", "", None, 1.0), "the row begins anew"


async def test_an_item_that_breaks_the_server_fails_after_three_attempts():
    """The others are answered, and the batch does not wait."""
    clock, asked = Clock(), []

    async def script(run, item):
        asked.append(item.number)
        if item.number == 3:
            return failed("server_error")
        run.reply()
        return outcome()

    batch = batch_of(8, ScriptedRuns(script), clock, at_once=2)
    done = await all_of(batch)
    assert (done[3].state, asked.count(3), len(done)) == ("failed", 3, 8)
    assert dict(batch.counts.failed) == {"server_error": 1}
    assert clock.slept == []


# A cost limit is divided so that what is spent and granted never exceeds it, and nothing is lost.
COSTS = st.floats(0, 10, allow_nan=False)
TINY = 1e-8
"""Error of sums of floating-point numbers [USD]."""


@given(
    limit=COSTS,
    slots=st.integers(1, 8),
    typical=COSTS,
    spent=COSTS,
    steps=st.lists(st.tuples(st.booleans(), st.floats(0, 1), st.none() | COSTS), max_size=60),
)
def test_what_is_spent_and_granted_never_exceeds_the_limit(limit, slots, typical, spent, steps):
    """Whatever is taken and returned in any order, each run spends at most its grant, and all grants come back."""
    grants, out = Grants(limit, slots, spent=spent, typical=typical), []
    before = spent
    for takes, share, most in steps:
        if takes and len(out) < slots:
            grant = grants.take(most)
            if grant is not None:
                assert most is None or grant <= most
                out.append(grant)
        elif out:
            grant = out.pop()
            grants.settle(grant, grant * share)
            before += grant * share
        assert grants.spent + grants.granted <= max(limit, spent) + TINY
        assert grants.granted == pytest.approx(sum(out))
        assert grants.spent == pytest.approx(before)
        assert grants.left >= 0
    for grant in out:
        grants.settle(grant, 0)
    assert grants.granted == 0
    assert grants.left == pytest.approx(max(limit - grants.spent, 0), abs=TINY)
    assert grants.is_exhausted == (grants.take() is None)


def test_a_share_is_at_least_a_typical_item_so_that_few_items_get_enough_instead_of_all_too_little():
    """Four of the eight slots get a quarter each, and the others wait."""
    grants = Grants(1.0, 8, typical=0.25)
    assert [grants.take() for _ in range(5)] == [0.25, 0.25, 0.25, 0.25, None]
    assert not grants.is_exhausted
    grants.settle(0.25, 0.05)
    assert grants.take() is None, "0.20 does not cover an item of 0.25"


class Record(BatchRecord):
    """Says that some runs are stored."""

    def __init__(self, costs):
        self._costs = costs

    async def open(self, items, stopped):
        """Return the stored runs with their costs."""
        return self._costs


async def test_what_earlier_calls_have_spent_counts_and_a_resumed_run_spends_only_the_rest():
    """A run of 0.3 that is resumed and ends at 0.5 has spent 0.2 now."""

    async def script(run, item):
        run.cost_before = 0.3
        return outcome(cost=0.5)

    clock, all_items = Clock(), items(1)
    stored = Record({"b1-0000000000000001": 0.3})
    batch = Batch(
        "b1", lambda: all_items, ScriptedRuns(script), Bounds(cost_limit=1.0), total=1, record=stored,
        clock=clock, sleep=clock.sleep,
    )  # fmt: skip
    await all_of(batch)
    assert batch._grants.spent == pytest.approx(0.5)
    assert batch._grants.granted == 0
    assert batch.cost_usd == pytest.approx(0.5)

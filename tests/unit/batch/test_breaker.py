"""Failures of the endpoint in a row pause a batch or end it; no item counts as failed because of them."""

import math

import pytest

from run_specialist.batch.limits import PAUSING, Breaker
from run_specialist.record.outcome import Exit
from tests.unit.batch.scripted_items import Clock, ScriptedRuns, all_of, batch_of, failed, outcome


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


class Endpoint:
    """Fails in some way until a time of the clock, and answers afterwards."""

    def __init__(self, clock, kind, until, retry_after=None):
        self.clock, self.kind, self.until, self.retry_after = clock, kind, until, retry_after
        self.asked = 0

    async def __call__(self, run, item):
        """Answer the request of a run."""
        self.asked += 1
        if self.clock.now < self.until:
            return failed(self.kind, self.retry_after)
        run.reply()
        return outcome()


@pytest.mark.anyio
async def test_an_endpoint_that_does_not_recover_ends_the_batch_after_the_pause_limit():
    """The rest is not run, and the same call continues with it."""
    clock = Clock()
    batch = batch_of(30, ScriptedRuns(Endpoint(clock, "overloaded", math.inf)), clock, at_once=4, pause_limit=100)
    assert await all_of(batch) == {}
    assert (batch.ended_because, batch.counts.not_run, batch.exit_code) == ("overloaded", 30, Exit.PROVIDER)
    assert clock.now == 100


@pytest.mark.anyio
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

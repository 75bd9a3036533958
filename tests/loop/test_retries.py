"""A request is sent again while its endpoint cannot answer, as long as the patience lasts."""

import asyncio
import re

import pytest

from run_specialist.budget import Kind
from run_specialist.errors import Unavailable
from run_specialist.loop.retries import FIRST_WAIT, LONGEST_WAIT, MOST_REPEATED, Retries
from run_specialist.loop.run import Run
from run_specialist.record.events import Retrying, Started
from run_specialist.record.outcome import Exit
from tests.loop_jobs import job, outcome_of
from tests.scripted_provider import ScriptedProvider, calls, says

pytestmark = pytest.mark.anyio
BUSY = Unavailable("the API answered 529: busy", "try again later", status=529)
DOWN = Unavailable("cannot reach http://x", "check the network")
BROKEN = Unavailable("the connection was closed", "try again", may_have_run=True)
LOOK = calls(("look", {"query": "a"}))


async def retried(script, **settings):
    """Run a job against a script; return its outcome, its waits, and the provider."""
    events, provider = [], ScriptedProvider(script)
    outcome = await outcome_of(job(provider, **settings), events)
    return outcome, [event for event in events if isinstance(event, Retrying)], provider


async def test_w1_w2_each_wait_is_an_event_and_no_turn():
    """Two failures cost two waits, reported before they begin; turns, tokens and cost are those of the replies."""
    outcome, waits, provider = await retried([LOOK, BUSY, DOWN, says("mice")])
    undisturbed, _, _ = await retried([LOOK, says("mice")])
    assert [(wait.status, wait.attempt, wait.reason) for wait in waits] == [
        (529, 1, "the API answered 529: busy"),
        (None, 2, "cannot reach http://x"),
    ]
    assert (outcome.limits[Kind.TURNS].used, outcome.usage) == (2, undisturbed.usage)
    assert (outcome.cost_usd, outcome.tool_calls) == (undisturbed.cost_usd, undisturbed.tool_calls)
    assert [request.retries for request in provider.requests] == [0, 0, 1, 2]
    assert provider.requests[1].messages == provider.requests[3].messages


async def test_w1_the_waits_grow_until_the_patience_is_over():
    """The waits double up to a maximum; the last attempt is made when the patience ends, and the error tells it all."""
    waits = []
    run = Run(
        job(ScriptedProvider([BUSY] * 40), patience=60),
        lambda event: waits.append(event) if isinstance(event, Retrying) else None,
    )
    outcome, seconds = await run.outcome(), [wait.seconds for wait in waits]
    assert sum(seconds) == pytest.approx(60, abs=0.01)
    assert all(at <= min(FIRST_WAIT * 2**number, LONGEST_WAIT) for number, at in enumerate(seconds))
    assert seconds[:5] == sorted(seconds[:5])
    assert (outcome.status, outcome.exit_code) == ("failed", Exit.PROVIDER)
    assert outcome.error == f"the API answered 529: busy; try again later (retried {len(waits)} times in 60 s)"


@pytest.mark.parametrize(("patience", "attempts"), [(0, 0), (1, 2)])
async def test_w7_patience_0_never_retries(patience, attempts):
    """With patience 0 the first failure ends the run, with its own message."""
    outcome, waits, _ = await retried([BUSY] * (attempts + 1), patience=patience)
    assert (outcome.status, len(waits)) == ("failed", attempts)
    assert ("retried" in outcome.error) is bool(attempts)


async def test_w3_a_requested_wait_replaces_the_own_one():
    """A wait of a second or more is taken as it is, a shorter one only if it is longer than the own one."""
    script = [Unavailable("busy", status=429, wait=wait) for wait in (3, 1, 0.9, 1e-9)]
    _, waits, _ = await retried([*script, says("mice")])
    assert [wait.seconds for wait in waits[:2]] == [3, 1]
    assert 1.5 <= waits[2].seconds <= 2
    assert 3 <= waits[3].seconds <= 4


@pytest.mark.parametrize(
    ("wait", "patience", "said"),
    [
        (121, 120, "try again in 121 seconds, as the API requests, longer than patience allows (120 seconds)"),
        (3600, 600, "try again in 3600 seconds, as the API requests, longer than patience allows (600 seconds)"),
        (float("inf"), None, "try again in inf seconds, as the API requests, longer than patience allows"),
    ],
)
async def test_w3_a_wait_beyond_the_patience_fails_at_once(wait, patience, said):
    """Nothing is waited for in vain: the run fails before the first wait, and says how long it would take."""
    outcome, waits, _ = await retried([LOOK, Unavailable("busy", status=429, wait=wait)], patience=patience)
    assert outcome.error == f"busy; {said}"
    assert (waits, outcome.status, outcome.exit_code) == ([], "failed", Exit.PROVIDER)
    assert "note on 'a'" in outcome.answer


async def test_w3_a_wait_beyond_the_time_limit_fails_at_once():
    """Of patience and time limit the shorter one counts, and is named."""
    outcome, waits, _ = await retried([Unavailable("busy", status=429, wait=70)], limits={Kind.TIME: 60})
    assert re.search(r"longer than the time limit allows \([0-9]+ seconds\)$", outcome.error)
    assert not waits


async def test_w4_a_request_that_may_have_run_is_repeated_twice():
    """Failures that may be billed are limited in number, whatever the patience; others do not count among them."""
    outcome, waits, _ = await retried([BROKEN, BUSY, BROKEN, BUSY, BROKEN], patience=None)
    assert (outcome.status, len(waits)) == ("failed", MOST_REPEATED + 2)
    outcome, waits, _ = await retried([BROKEN, BROKEN, says("mice")])
    assert (outcome.answer, len(waits)) == ("mice", 2)


async def forever(seconds):
    """Wait without an end."""
    await asyncio.Event().wait()


@pytest.mark.parametrize("how", ["abort", "cancel"])
async def test_w5_an_abort_or_a_cancellation_ends_a_wait(monkeypatch, how):
    """A wait of an hour ends as soon as the run is aborted or cancelled, and keeps what was gathered."""
    monkeypatch.setattr(Retries, "sleep", staticmethod(forever))
    provider, is_waiting = ScriptedProvider([LOOK, BUSY]), asyncio.Event()
    run = Run(job(provider), lambda event: is_waiting.set() if isinstance(event, Retrying) else None)
    task = asyncio.create_task(run.outcome())
    await is_waiting.wait()
    if how == "abort":
        run.abort()
        outcome = await task
    else:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        outcome = run.ended
    assert (outcome.status, outcome.exit_code) == ("aborted", Exit.INTERRUPTED)
    assert "note on 'a'" in outcome.answer


async def test_w5_the_time_limit_ends_a_wait_and_the_run_lands(monkeypatch):
    """When the working time is over in the middle of a wait, the landing asks for the answer."""
    monkeypatch.setattr(Retries, "sleep", staticmethod(forever))
    answer = calls(("respond", {"answer": "mice"}), first_id=2)
    events = []
    outcome = await outcome_of(job(ScriptedProvider([BUSY, answer]), limits={Kind.TIME: 0.01}), events)
    assert (outcome.status, outcome.answer, outcome.landing.reason) == ("landed", "mice", "time")
    assert len([event for event in events if isinstance(event, Retrying)]) == 1
    assert isinstance(events[0], Started)

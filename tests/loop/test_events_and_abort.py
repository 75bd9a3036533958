"""Events that listeners receive, and the outcome of aborted runs."""

import asyncio
from dataclasses import replace

import pytest

from run_specialist.errors import UsageError
from run_specialist.loop.run import Run
from run_specialist.providers.base import Delta
from run_specialist.tools.base import Tool
from tests.loop_jobs import LOOK, job, outcome_of
from tests.scripted_provider import ScriptedProvider, calls, says

pytestmark = pytest.mark.anyio
LOOKS = calls(("look", {"query": "a"}))


@pytest.fixture
def hanging():
    """Return a tool that never ends, and an event that is set when the tool has started."""
    reached = asyncio.Event()

    async def hang(query: str) -> str:
        reached.set()
        await asyncio.Event().wait()
        return query

    return Tool("look", "Hangs.", hang), reached


async def test_s3_6_an_abort_keeps_finished_results(hanging):
    """An abort keeps finished results, counts the running call as an attempt, and lets the caller's task continue."""
    look, reached = hanging

    both = calls(("look", {"query": "b"}), ("hang", {"query": "c"}), first_id=2)
    run = Run(job(ScriptedProvider([LOOKS, both]), 9, tools=[LOOK, replace(look, name="hang")]))
    task = asyncio.create_task(run.outcome())
    await reached.wait()
    run.abort()
    outcome = await task
    assert outcome.status == "aborted"
    assert "note on 'a'" in outcome.answer
    assert outcome.tool_calls.used == 3


async def test_a_second_outcome_call_is_refused_or_returns_the_same(hanging):
    """A second `outcome()` during the run is refused; after the run it returns the same outcome without a request."""
    look, reached = hanging
    provider = ScriptedProvider([calls(("look", {"query": "a"}))])
    run = Run(job(provider, 9, tools=[look]))
    first = asyncio.create_task(run.outcome())
    await reached.wait()
    with pytest.raises(UsageError, match="run-1 is in progress"):
        await run.outcome()
    run.abort()
    assert await first is await run.outcome()
    assert len(provider.requests) == 1


async def test_s3_6_a_cancellation_from_outside_propagates(hanging):
    """A cancellation from outside propagates after the last event."""
    events, (look, reached) = [], hanging
    child = job(ScriptedProvider([calls(("look", {"query": "a"}))]), 9, tools=[look])
    task = asyncio.create_task(outcome_of(child, events))
    await reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert events[-1].outcome.status == "aborted"


async def test_a_failing_listener_is_removed_and_the_run_continues():
    """A listener that raises is removed, the run continues, and the outcome contains a warning."""

    def listen(event):
        raise KeyError("oops")

    outcome = await Run(job(ScriptedProvider([LOOKS, says("done")]), 4), listen).outcome()
    assert (outcome.status, outcome.answer) == ("answered", "done")
    assert "the listener failed" in outcome.warnings[0]


@pytest.mark.parametrize(("event", "requests", "calls_run"), [("started", 0, 0), ("request", 0, 0), ("reply", 1, 0)])
async def test_s3_6_a_listener_may_abort(event, requests, calls_run):
    """A listener may abort the run: no more requests or calls follow, and the caller's task is not cancelled."""
    provider = ScriptedProvider([LOOKS])
    run = Run(job(provider, 4), lambda told: run.abort() if told.event == event else None)
    outcome = await run.outcome()
    await asyncio.sleep(0)
    assert (outcome.status, len(provider.requests), outcome.tool_calls.used) == ("aborted", requests, calls_run)


async def test_s3_6_an_abort_leaves_no_cancellation_on_the_task(hanging):
    """Aborting twice or inside a timeout leaves no cancellation behind on the caller's task."""
    look, reached = hanging

    run = Run(job(ScriptedProvider([LOOKS]), 9, tools=[look]))

    async def parent():
        async with asyncio.timeout(60):
            outcome = await run.outcome()
        return outcome, asyncio.current_task().cancelling()

    task = asyncio.create_task(parent())
    await reached.wait()
    run.abort()
    run.abort()
    outcome, cancelling = await task
    assert (outcome.status, cancelling) == ("aborted", 0)


async def test_s3_6_a_cancellation_beside_an_abort_propagates(hanging):
    """A cancellation of the parent propagates even if the child is aborted at the same time."""
    look, reached = hanging

    run = Run(job(ScriptedProvider([LOOKS]), 9, tools=[look]))
    task = asyncio.create_task(run.outcome())
    await reached.wait()
    run.abort()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_failing_observer_does_not_affect_the_reply():
    """An observer that fails while a reply streams does not affect the reply."""

    def watch(delta):
        raise KeyError("my view")

    class Streaming(ScriptedProvider):
        """A provider that streams a piece of each reply."""

        def open(self, opening, watch=None):
            watch(Delta("piece"))
            return super().open(opening, watch)

    outcome = await outcome_of(job(Streaming([says("done")]), 4, tools=()), watch=watch)
    assert (outcome.status, outcome.warnings) == ("answered", ())

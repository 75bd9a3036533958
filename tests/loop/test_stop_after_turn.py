"""`abort(after_turn=True)`: the turn under way ends, nothing more is sent, and the run ends as aborted or answered."""

import asyncio

import pytest

from run_specialist.budget import Kind
from run_specialist.errors import ProviderError, Unavailable
from run_specialist.loop.retries import Retries
from run_specialist.loop.run import Run
from run_specialist.record.messages import Stop
from run_specialist.record.outcome import Exit
from run_specialist.tools.base import Tool
from tests.loop.stored_replies import ANSWER, looks
from tests.loop_jobs import LOOK, job, results
from tests.scripted_provider import ScriptedProvider, says

pytestmark = pytest.mark.anyio
BUSY = Unavailable("the API answered 529: busy", status=529)


def stopped_by(script, **settings):
    """Return a run and its provider; a line of the script `(reply,)` arrives after the run was told to stop."""

    def while_waiting(reply):
        def answer(_request):
            run.abort(after_turn=True)
            if isinstance(reply, Exception):
                raise reply
            return reply

        return answer

    lines = [while_waiting(*line) if isinstance(line, tuple) else line for line in script]
    provider = ScriptedProvider(lines)
    events = []
    run = Run(job(provider, 9, **settings), events.append)
    return run, provider, events


@pytest.fixture
def hanging():
    """Return a tool that waits for an event, which is the second value; the first one is set when it has started."""
    reached, may_end = asyncio.Event(), asyncio.Event()

    async def hang(query: str) -> str:
        reached.set()
        await may_end.wait()
        return f"note on {query!r}"

    return Tool("look", "Hangs.", hang), reached, may_end


async def test_the_reply_under_way_is_awaited_and_its_calls_are_run():
    """The turn is whole: its reply is charged, both calls return, and no other request is sent."""
    run, provider, events = stopped_by([looks(1), (looks(2, 2),)])
    outcome = await run.outcome()
    assert (outcome.status, outcome.exit_code, outcome.error) == ("aborted", Exit.INTERRUPTED, "interrupted")
    assert (outcome.error_kind, len(provider.requests), outcome.limits["turns"].used) == (None, 2, 2)
    assert (outcome.tool_calls.used, outcome.tool_calls.skipped) == (3, 0)
    assert outcome.usage.total_tokens == 30
    assert [one.split(",")[0] for one in results(run.transcript[-1])] == ["note on '2'", "note on '3'"]
    assert [event.event for event in events].count("request") == 2
    assert "note on '3'" in outcome.answer


@pytest.mark.parametrize(
    ("reply", "status"),
    [(ANSWER, "answered"), (says("It is known."), "answered"), (says("", Stop.REFUSED), "failed")],
    ids=["respond", "text", "refusal"],
)
async def test_an_end_in_that_turn_is_the_end_of_the_run(reply, status):
    """An answer that arrives in that turn is the answer of the run, and a refusal its failure."""
    run, _, _ = stopped_by([looks(1), (reply,)])
    outcome = await run.outcome()
    assert outcome.status == status
    assert (outcome.answer == "It is known.") is (status == "answered")


@pytest.mark.parametrize("order", [(True, False), (False, True), (True, False, False, True)])
async def test_an_abort_without_waiting_cuts_the_turn(hanging, order):
    """`abort()` cuts the call that runs, before or after a stop that would wait for it."""
    look, reached, _ = hanging
    run = Run(job(ScriptedProvider([looks(1)]), 9, tools=[look]))
    task = asyncio.create_task(run.outcome())
    await reached.wait()
    for after_turn in order:
        run.abort(after_turn=after_turn)
    outcome = await task
    assert (outcome.status, outcome.tool_calls.used) == ("aborted", 1)
    assert "stopped" in results(run.transcript[-1])[0]


async def test_a_cancellation_from_outside_cuts_the_turn_too(hanging):
    """A cancellation of the task does not wait for the turn, and propagates."""
    look, reached, _ = hanging
    run = Run(job(ScriptedProvider([looks(1)]), 9, tools=[look]))
    task = asyncio.create_task(run.outcome())
    await reached.wait()
    run.abort(after_turn=True)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert run.ended.status == "aborted"


async def test_w_5_a_request_that_waits_for_a_retry_is_given_up(monkeypatch):
    """The wait ends immediately, the request is not sent again, and the run is aborted and not failed."""
    waiting = asyncio.Event()

    async def forever(seconds):
        waiting.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(Retries, "sleep", staticmethod(forever))
    provider = ScriptedProvider([looks(1), BUSY])
    run = Run(job(provider, 9))
    task = asyncio.create_task(run.outcome())
    await waiting.wait()
    run.abort(after_turn=True)
    outcome = await task
    assert (outcome.status, outcome.error_kind, outcome.landing, len(provider.requests)) == ("aborted", None, None, 2)
    assert "note on '1'" in outcome.answer


async def test_w_5_a_listener_may_stop_at_the_announcement_of_a_retry():
    """A stop at the event `retrying` comes before the wait, which then does not begin."""
    provider = ScriptedProvider([BUSY])
    run = Run(job(provider, 9), lambda told: told.event == "retrying" and run.abort(after_turn=True))
    assert ((await run.outcome()).status, len(provider.requests)) == ("aborted", 1)


async def test_a_request_that_fails_after_the_stop_is_not_sent_again():
    """A failure that may pass is left to the resumption, without a word of a retry; one that stays ends the run."""
    run, provider, events = stopped_by([looks(1), (BUSY,)])
    outcome = await run.outcome()
    assert (outcome.status, len(provider.requests)) == ("aborted", 2)
    assert "retrying" not in [event.event for event in events]
    run, _, _ = stopped_by([looks(1), (ProviderError("wrong key", kind="credentials"),)])
    outcome = await run.outcome()
    assert (outcome.status, outcome.error_kind) == ("failed", "credentials")


async def test_a_time_limit_still_ends_the_turn(hanging):
    """A call of the last turn is cut when the time of the run is up, and no landing follows."""
    look, reached, _ = hanging
    provider = ScriptedProvider([looks(1)])
    run = Run(job(provider, 9, tools=[look], limits={Kind.TIME: 0.2}))
    task = asyncio.create_task(run.outcome())
    await reached.wait()
    run.abort(after_turn=True)
    outcome = await task
    assert (outcome.status, outcome.landing, len(provider.requests)) == ("aborted", None, 1)
    assert LOOK.name in results(run.transcript[-1])[0]

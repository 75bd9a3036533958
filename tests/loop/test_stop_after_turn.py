"""`abort(after_turn=True)`: the turn under way ends, nothing more is sent, and the run ends as aborted or answered."""

import asyncio

import pytest

from run_specialist.api.runner import Runner
from run_specialist.errors import ProviderError, Unavailable
from run_specialist.loop.run import Run
from run_specialist.record.journal import Received
from run_specialist.record.messages import Stop
from run_specialist.record.outcome import Exit
from run_specialist.store.reader import Store
from run_specialist.tools.base import Tool
from tests.loop.nested_replies import asks
from tests.loop.nested_replies import looks as child_looks
from tests.loop.stored_replies import ANSWER, looks
from tests.loop_jobs import LOOK, job, results
from tests.scripted_provider import ScriptedProvider, calls, says
from tests.scripted_specialists import ScriptedSpecialists, write
from tests.stored_runs import LOOKER

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


# Stored runs that were stopped after their turn: what was paid for is stored, and summaries are whole or not begun.


LONG = LOOKER.model_copy(update={"summarize_at": 18})
WIDE = [calls(("look", {"query": "a" * 900})), calls(("look", {"query": "b"}), first_id=2)]


class Stopper:
    """Stops a run while one of its requests is under way."""

    def __init__(self):
        self.run = None

    def __call__(self, reply):
        """Return a line of a script that stops the run and then answers."""

        def answer(_request):
            self.run.abort(after_turn=True)
            if isinstance(reply, Exception):
                raise reply
            return reply

        return answer


async def stopped(desk, *script, specialist=LOOKER, **settings):
    """Ask in a process that is stopped after its turn by a line of its script; return outcome and provider."""
    stop = Stopper()
    provider = ScriptedProvider([stop(*line) if isinstance(line, tuple) else line for line in script])
    async with desk.process(provider) as runner:
        stop.run = await runner.prepare(specialist, "What is known?", **settings)
        outcome = await stop.run.outcome()
    provider.assert_used_up()
    return outcome, provider


async def test_a_pending_reply_stays_pending_if_the_run_is_stopped_before_it_begins(desk):
    """A run that is stopped immediately does not act upon a reply of a crashed process, and does not lose it either."""
    going = await desk.record(looks(1), ANSWER)
    await desk.keep(going.notebook.until(Received, 2))
    provider = ScriptedProvider([])
    async with desk.process(provider) as runner:
        run = await runner.resume("last")
        run.abort(after_turn=True)
        outcome = await run.outcome()
    assert outcome.status == "aborted"
    again = await desk.go_on()
    assert (again.outcome.status, again.outcome.answer, again.requests) == ("answered", "It is known.", [])


async def test_no_summary_begins_after_the_stop(desk):
    """A request that is only to be sent after a summary is not sent, and the summary is left to the resumption."""
    outcome, provider = await stopped(desk, WIDE[0], (WIDE[1],), specialist=LONG)
    assert (outcome.status, len(provider.requests), outcome.landing) == ("aborted", 2, None)
    again = await desk.go_on(says("notes"), ANSWER)
    assert (again.outcome.status, len(again.named("summarized"))) == ("answered", 1)


async def test_a_summary_that_has_begun_is_completed(desk):
    """Its notes are paid for and only stored as a whole: it is completed, and no request follows it."""
    events = []
    outcome, provider = await stopped(desk, *WIDE, (says("notes"),), specialist=LONG, listener=events.append)
    assert [event.event for event in events].count("request") == 2
    assert (outcome.status, len(provider.requests)) == ("aborted", 3)
    assert outcome.usage.total_tokens == 45
    again = await desk.go_on(ANSWER)
    assert (again.outcome.status, again.named("summarized")) == ("answered", [])
    assert "notes" in str([message.content for message in again.requests[0].messages])


async def test_a_summary_with_a_failed_request_is_dropped(desk):
    """A request for notes that would have to be retried is given up, and with it the summary, so that it has no gap."""
    busy = Unavailable("busy", status=529)
    outcome, provider = await stopped(desk, *WIDE, (busy,), specialist=LONG)
    assert (outcome.status, len(provider.requests)) == ("aborted", 3)
    assert not [warning for warning in outcome.warnings if "summarized" in warning]
    again = await desk.go_on(says("notes"), ANSWER)
    assert (again.outcome.status, len(again.named("summarized"))) == ("answered", 1)


# Children


@pytest.fixture
def family(tmp_path, monkeypatch):
    """Write a specialist that asks another one, which asks a third one."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path, "lead", "agents: [finder]", "tool_calls_limit: 10")
    write(tmp_path, "finder", "agents: [reader]", "tool_calls_limit: 6")
    write(tmp_path, "reader", "tool_calls_limit: 4")
    return f"sqlite:///{tmp_path}/runs.db"


async def lead(store, cast, stop=None):
    """Ask the first specialist; return its outcome and the stored runs by specialist."""
    async with Runner(provider=cast, tools=[LOOK], store=store) as runner:
        run = await runner.prepare("lead", "What is known?")
        if stop:
            stop.run = run
        outcome = await run.outcome()
    cast.assert_used_up()
    with Store(store) as kept:
        return outcome, {one.specialist: kept.load(one.run_id) for one in kept.runs()}


async def test_x_11_the_turn_of_a_child_ends_too(family):
    """The child's turn under way is whole and stored, it sends nothing more, and its part is the parent's result."""
    stop = Stopper()
    cast = ScriptedSpecialists(lead=[[asks("finder")]], finder=[[stop(child_looks("owls"))]])
    outcome, runs = await lead(family, cast, stop)
    assert (outcome.status, runs["finder"].status) == ("aborted", "aborted")
    assert (outcome.children[0].tool_calls, outcome.tool_calls.failed) == (1, 0)
    assert "note on 'owls'" in outcome.answer
    assert [len(runs[name].turns) for name in ("lead", "finder")] == [1, 1]

"""`abort(after_turn=True)`: the turn under way ends, nothing more is sent, and the run ends as aborted or answered."""

import pytest

from run_specialist.api.runner import Runner
from run_specialist.errors import ProviderError, Unavailable
from run_specialist.loop.run import Run
from run_specialist.record.journal import Received
from run_specialist.record.messages import Stop
from run_specialist.store.reader import Store
from tests.loop.replies import ANSWER, asks, looks, looks_for
from tests.loop_jobs import LOOK, job
from tests.scripted_provider import ScriptedProvider, says
from tests.scripted_specialists import ScriptedSpecialists
from tests.stored_runs import LOOKER

BUSY = Unavailable("the API answered 529: busy", status=529)
LONG = LOOKER.model_copy(update={"summarize_at": 18})
WIDE = [looks_for("a" * 900), looks_for("b", first_id=2)]


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
    """Ask in a process that a line `(reply,)` of its script stops after its turn; return outcome and provider."""
    stop = Stopper()
    provider = ScriptedProvider([stop(*line) if isinstance(line, tuple) else line for line in script])
    async with desk.process(provider=provider) as runner:
        stop.run = await runner.prepare(specialist, "What is known?", **settings)
        outcome = await stop.run.outcome()
    provider.assert_used_up()
    return outcome, provider


@pytest.mark.parametrize(
    ("reply", "status"),
    [(ANSWER, "answered"), (says("It is known."), "answered"), (says("", Stop.REFUSED), "failed")],
    ids=["respond", "text", "refusal"],
)
async def test_an_end_in_that_turn_is_the_end_of_the_run(desk, reply, status):
    """An answer that arrives in that turn is the answer of the run, and a refusal its failure."""
    outcome, _ = await stopped(desk, looks(1), (reply,))
    assert outcome.status == status
    assert (outcome.answer == "It is known.") is (status == "answered")


async def test_w_5_a_listener_may_stop_at_the_announcement_of_a_retry():
    """A stop at the event `retrying` comes before the wait, which then does not begin."""
    provider = ScriptedProvider([BUSY])
    run = Run(job(provider, 9), lambda told: told.event == "retrying" and run.abort(after_turn=True))
    assert ((await run.outcome()).status, len(provider.requests)) == ("aborted", 1)


async def test_a_request_that_fails_after_the_stop_is_not_sent_again(desk):
    """A failure that may pass is left to the resumption, without a word of a retry; one that stays ends the run."""
    events = []
    outcome, provider = await stopped(desk, looks(1), (BUSY,), listener=events.append)
    assert (outcome.status, len(provider.requests)) == ("aborted", 2)
    assert "retrying" not in [event.event for event in events]
    outcome, _ = await stopped(desk, looks(1), (ProviderError("wrong key", kind="credentials"),))
    assert (outcome.status, outcome.error_kind) == ("failed", "credentials")


@pytest.mark.exhaustive
async def test_a_pending_reply_stays_pending_if_the_run_is_stopped_before_it_begins(desk):
    """A run that is stopped immediately does not act upon a reply of a crashed process, and does not lose it either."""
    going = await desk.record(looks(1), ANSWER)
    await desk.keep(going.notebook.until(Received, 2))
    provider = ScriptedProvider([])
    async with desk.process(provider=provider) as runner:
        run = await runner.resume("last")
        run.abort(after_turn=True)
        outcome = await run.outcome()
    assert outcome.status == "aborted"
    again = await desk.go_on()
    assert (again.outcome.status, again.outcome.answer, again.requests) == ("answered", "It is known.", [])


@pytest.mark.exhaustive
async def test_no_summary_begins_after_the_stop(desk):
    """A request that is only to be sent after a summary is not sent, and the summary is left to the resumption."""
    outcome, provider = await stopped(desk, WIDE[0], (WIDE[1],), specialist=LONG)
    assert (outcome.status, len(provider.requests), outcome.landing) == ("aborted", 2, None)
    again = await desk.go_on(says("notes"), ANSWER)
    assert (again.outcome.status, len(again.named("summarized"))) == ("answered", 1)


@pytest.mark.exhaustive
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
    outcome, provider = await stopped(desk, *WIDE, (BUSY,), specialist=LONG)
    assert (outcome.status, len(provider.requests)) == ("aborted", 3)
    assert not [warning for warning in outcome.warnings if "summarized" in warning]
    again = await desk.go_on(says("notes"), ANSWER)
    assert (again.outcome.status, len(again.named("summarized"))) == ("answered", 1)


async def test_x_11_the_turn_of_a_child_ends_too(store):
    """The child's turn under way is whole and stored, it sends nothing more, and its part is the parent's result."""
    stop = Stopper()
    cast = ScriptedSpecialists(lead=[[asks("finder")]], finder=[[stop(looks_for("owls"))]])
    async with Runner(provider=cast, tools=[LOOK], store=store) as runner:
        stop.run = await runner.prepare("lead", "What is known?")
        outcome = await stop.run.outcome()
    cast.assert_used_up()
    with Store(store) as kept:
        runs = {one.specialist: kept.load(one.run_id) for one in kept.runs()}
    assert (outcome.status, runs["finder"].status) == ("aborted", "aborted")
    assert (outcome.children[0].tool_calls, outcome.tool_calls.failed) == (1, 0)
    assert "note on 'owls'" in outcome.answer
    assert [len(runs[name].turns) for name in ("lead", "finder")] == [1, 1]

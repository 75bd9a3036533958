"""The rung `schema` in stored, resumed and summarized runs, with a scripted model."""

import json

import pytest

from run_specialist.providers.base import Choice
from run_specialist.record.journal import Received
from run_specialist.record.messages import Stop
from tests.loop.stored_replies import looks
from tests.loop_jobs import job, outcome_of
from tests.scripted_provider import ScriptedProvider, calls, says

pytestmark = pytest.mark.anyio
JSON = json.dumps({"answer": "It is known.", "evidence": [{"source": "n:1", "quote": "note on '1'"}], "gaps": None})
WRITTEN = says(JSON)


@pytest.fixture
def desk(desk):
    """Provide processes whose scripted model takes a schema."""
    desk.schema = True
    return desk


async def pending(desk, reply, **settings):
    """Leave a run whose process died after the reply to a schema request, and before acting on it."""
    going = await desk.record(looks(1), reply, WRITTEN, tool_calls_limit=1, landing="schema", **settings)
    assert going.requests[1].choice is Choice.SCHEMA
    await desk.keep(going.notebook.until(Received, 2))
    assert desk.load().pending.choice == "schema"


async def test_g1_a_reply_that_was_stored_before_a_crash_is_read_as_json_too(desk):
    """A resumed run reads the stored reply as the input of `respond`, without a request, and names the rung."""
    await pending(desk, WRITTEN)
    again = await desk.go_on()
    assert again.requests == []
    assert (again.outcome.status, again.outcome.answer) == ("landed", "It is known.")
    assert [quote.verified for quote in again.outcome.evidence] == [True]
    assert (again.outcome.landing.how, again.outcome.landing.requests) == ("schema", 1)
    assert desk.load().messages[-1].message.blocks == ({"type": "text", "text": JSON},)


async def test_g1_a_stored_reply_belongs_to_the_rung_of_its_request(desk):
    """On a ladder that begins with force, a resumed run whose stored reply answers the schema names that rung."""
    going = await desk.record(looks(1), looks(2), WRITTEN, tool_calls_limit=1)
    assert [request.choice for request in going.requests[1:]] == [Choice.RESPOND, Choice.SCHEMA]
    await desk.keep(going.notebook.until(Received, 3))
    again = await desk.go_on()
    assert (again.outcome.answer, again.outcome.landing.how) == ("It is known.", "schema")
    assert [event.how for event in again.named("landing")] == ["schema"]


async def test_g2_after_a_stored_reply_that_ignored_the_schema_the_other_rungs_follow(desk):
    """Calls in a stored reply to a schema are not run; the ladder continues without that rung."""
    await pending(desk, looks(2))
    again = await desk.go_on(says("In words."))
    assert [request.choice for request in again.requests] == [Choice.NONE]
    assert (again.outcome.answer, again.outcome.landing.how, again.outcome.tool_calls.used) == ("In words.", "none", 1)


async def test_x_6_stored_json_that_was_cut_is_asked_for_again(desk):
    """A cut reply is not an answer after a crash either: the same constrained request follows, with more room."""
    await pending(desk, says(JSON[:30], Stop.TRUNCATED))
    again = await desk.go_on(WRITTEN)
    (request,) = again.requests
    assert (request.choice, request.max_tokens) == (Choice.SCHEMA, 8_192)
    assert again.outcome.answer == "It is known."


async def test_g1_a_run_that_breaks_off_after_cut_json_salvages_no_json():
    """The newest text of the model is the readable part of its answer, also in a salvage."""
    cut = says('{"answer": "Owls eat mi', Stop.TRUNCATED)
    provider = ScriptedProvider([looks(1), cut, calls(("look", {}), first_id=9), looks(3)], schema=True)
    outcome = await outcome_of(job(provider, 1, landing="schema"))
    assert (outcome.status, outcome.landing.how) == ("partial", "salvage")
    assert "Owls eat mi" in outcome.answer
    assert '"answer"' not in outcome.answer


async def test_x_7_an_empty_answer_in_json_is_asked_for_once_more():
    """Valid JSON with an empty answer is an empty answer: one retry, then the run fails."""
    empty = says(json.dumps({"answer": " ", "evidence": None, "gaps": None}))
    provider = ScriptedProvider([looks(1), empty, empty], schema=True)
    outcome = await outcome_of(job(provider, 1, landing="schema"))
    assert (outcome.status, outcome.exit_code) == ("failed", 4)

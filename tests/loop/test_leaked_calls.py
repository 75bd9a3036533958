"""Runs whose endpoint sends tool calls as text."""

import json

import pytest

from run_specialist.providers.base import Choice
from run_specialist.providers.knowledge import CALLS_AS_TEXT
from run_specialist.record.journal import Received
from run_specialist.specialist.answer_schema import AnswerSchema
from run_specialist.tools.respond import respond_tool
from tests.loop.stored_replies import looks
from tests.loop_jobs import LOOK, job, outcome_of, results
from tests.scripted_provider import ScriptedProvider, calls, says

pytestmark = pytest.mark.anyio


def written(*wanted):
    """Script a reply whose text consists of calls."""
    return says("\n".join(json.dumps({"name": name, "arguments": arguments}) for name, arguments in wanted))


LOOKS = written(("look", {"query": "a"}), ("look", {"query": "b"}))
ANSWER = written(("respond", {"answer": "yes", "evidence": [{"source": "a", "quote": "note on 'a'"}]}))


async def test_g_3_calls_in_the_text_are_run_and_the_answer_in_the_text_is_taken():
    """Leaked calls run, spend budget and get results in order; a leaked `respond` is the answer with its quotes."""
    events = []
    provider = ScriptedProvider([LOOKS, ANSWER])
    outcome = await outcome_of(job(provider, 9), events)
    assert (outcome.status, outcome.answer, outcome.tool_calls.used) == ("answered", "yes", 2)
    assert [quote.verified for quote in outcome.evidence] == [True]
    assert results(provider.requests[1].messages[-1]) == ["note on 'a', part 0", "note on 'b', part 0"]
    assert outcome.warnings == (CALLS_AS_TEXT,)
    replied = [(event.stop, event.text) for event in events if event.event == "reply"]
    assert replied == [("wants_tools", ""), ("wants_tools", "")]


async def test_g_3_the_bare_input_of_respond_is_the_answer_without_a_warning():
    """The input of `respond` as text ends the run, with its quotes and gaps."""
    text = json.dumps({"answer": "yes", "evidence": [{"source": "a", "quote": "note on 'a'"}], "gaps": ["c"]})
    outcome = await outcome_of(job(ScriptedProvider([looks(1), says(text)]), 9))
    assert (outcome.status, outcome.answer, outcome.gaps) == ("answered", "yes", ("c",))
    assert [quote.quote for quote in outcome.evidence] == ["note on 'a'"]
    assert CALLS_AS_TEXT not in outcome.warnings


async def test_g_3_json_that_names_no_offered_tool_is_the_answer_as_it_stands():
    """A text with other JSON is an answer."""
    text = '{"name": "delete", "arguments": {}}'
    outcome = await outcome_of(job(ScriptedProvider([looks(1), says(text)]), 9))
    assert (outcome.status, outcome.answer) == ("answered", text)


async def test_g_3_x_5_at_the_landing_calls_in_the_text_are_not_run_and_the_next_rung_follows():
    """A leaked call at the limit is answered without being run, and does not count as an answer."""
    provider = ScriptedProvider([looks(1), LOOKS, ANSWER])
    outcome = await outcome_of(job(provider, 1))
    assert (outcome.status, outcome.answer, outcome.tool_calls.used) == ("landed", "yes", 1)
    assert outcome.landing.requests == 2
    assert all("Not run: limit reached" in text for text in results(provider.requests[2].messages[-1]))


async def test_g_3_where_only_text_is_allowed_calls_in_it_are_no_answer():
    """With `landing: none` a leaked call is not run, and the answer is made from what was gathered."""
    provider = ScriptedProvider([looks(1), LOOKS])
    outcome = await outcome_of(job(provider, 1, landing="none"))
    assert provider.requests[1].choice is Choice.NONE
    assert (outcome.status, outcome.tool_calls.used) == ("partial", 1)
    assert '"name"' not in outcome.answer
    outcome = await outcome_of(job(ScriptedProvider([looks(1), ANSWER]), 1, landing="none"))
    assert (outcome.status, outcome.answer) == ("landed", "yes")


async def test_g_3_with_a_schema_the_answer_in_the_text_is_its_output():
    """A leaked `respond` is checked like one that was called, and so is its bare input."""
    schema = AnswerSchema({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})
    settings = {"answer_schema": schema, "tools": [LOOK, respond_tool(schema)]}
    for text in (
        '{"name": "respond", "arguments": {"answer": {"n": 1}}}',
        '{"answer": {"n": 1}, "gaps": []}',
        '{"n": 1}',
    ):
        outcome = await outcome_of(job(ScriptedProvider([looks(1), says(text)]), 9, **settings))
        assert (outcome.status, outcome.output) == ("answered", {"n": 1})


async def test_g_3_the_store_and_a_resumed_run_see_calls(desk):
    """The reply is stored with its calls: after a crash they count as begun, and the warning is not repeated."""
    going = await desk.record(LOOKS, ANSWER)
    await desk.keep(going.notebook.until(Received))
    pending = desk.load().pending
    assert [(call.id, call.name) for call in pending.reply.calls] == [("written_1_1", "look"), ("written_1_2", "look")]
    again = await desk.go_on(written(("look", {"query": "c"})), calls(("respond", {"answer": "yes"}), first_id=90))
    assert again.outcome.tool_calls.used == 3
    assert [text.startswith("Not finished") for text in results(again.requests[0].messages[-1])] == [True, True]
    assert again.outcome.warnings.count(CALLS_AS_TEXT) == 1

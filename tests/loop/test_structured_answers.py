"""Answers with `output_schema`: a valid one is the output, an invalid one is returned once, then it is partial."""

from pathlib import Path

import pytest

from run_specialist.providers.base import Choice
from run_specialist.record.messages import Stop
from run_specialist.specialist.answer_schema import AnswerSchema
from run_specialist.tools.respond import respond_tool
from tests.loop_jobs import LOOK, job, outcome_of, results
from tests.scripted_provider import ScriptedProvider, calls, says

pytestmark = pytest.mark.anyio

SCHEMA = AnswerSchema.load(
    {
        "type": "object",
        "properties": {"food": {"type": "string"}, "owls": {"type": "integer"}},
        "required": ["food"],
        "additionalProperties": False,
    },
    Path(),
)
LOOKS = calls(("look", {"query": "owls"}), first_id=1)
GOOD = calls(("respond", {"answer": {"food": "mice"}}), first_id=50)


def bad(first_id=30, answer=None):
    """Make a turn that responds out of shape."""
    return calls(("respond", {"answer": answer or {"food": 3}}), first_id=first_id)


def shaped(provider, limit=9, **settings):
    """Make a job whose answer has a shape."""
    return job(provider, limit, answer_schema=SCHEMA, tools=[LOOK, respond_tool(SCHEMA)], **settings)


async def test_an_invalid_answer_is_returned_once_with_the_reason():
    """An invalid answer gets an error result with the validator's message, costs no call, and the next one is used."""
    provider = ScriptedProvider([LOOKS, bad(), GOOD])
    outcome = await outcome_of(shaped(provider))
    (told,) = provider.requests[2].messages[-1].blocks
    assert told["is_error"] is True
    assert "food: 3 is not of type 'string'" in told["content"]
    assert (outcome.status, outcome.output, outcome.tool_calls.used) == ("answered", {"food": "mice"}, 1)
    assert not outcome.warnings


async def test_a_second_invalid_answer_is_partial():
    """A second invalid answer is partial: its text is kept, and the outcome names the error."""
    provider = ScriptedProvider([LOOKS, bad(), bad(40, {"food": "mice", "owls": "two"})])
    outcome = await outcome_of(shaped(provider))
    assert (outcome.status, outcome.output, outcome.exit_code) == ("partial", None, 0)
    assert "mice" in outcome.answer
    assert outcome.error == "the answer does not match output_schema: owls: 'two' is not of type 'integer'"


@pytest.mark.parametrize("text", ['{"food": "mice"}', 'Here:\n```json\n{"food": "mice"}\n```'])
async def test_json_in_plain_text_is_accepted_as_the_answer(text):
    """JSON in plain text, also in a code fence with text around it, is accepted as the answer."""
    outcome = await outcome_of(shaped(ScriptedProvider([LOOKS, says(text)])))
    assert (outcome.status, outcome.output) == ("answered", {"food": "mice"})


async def test_an_invalid_text_answer_is_returned_as_a_user_message():
    """An invalid answer in plain text stays in the history, and the reason follows as a user message."""
    provider = ScriptedProvider([LOOKS, says("They eat mice."), GOOD])
    outcome = await outcome_of(shaped(provider))
    said, told = provider.requests[2].messages[-2:]
    assert (said.role, told.role) == ("assistant", "user")
    assert told.blocks[0]["type"] == "text"
    assert outcome.output == {"food": "mice"}


async def test_calls_beside_an_invalid_answer_are_skipped():
    """At a limit calls beside an invalid answer get skipped results in call order, and the next answer is used."""
    both = calls(("look", {"query": "a"}), ("respond", {"answer": {}}), ("look", {"query": "b"}), first_id=30)
    provider = ScriptedProvider([LOOKS, both, GOOD])
    outcome = await outcome_of(shaped(provider, 1))
    first, told, last = results(provider.requests[2].messages[-1])
    assert first.startswith("Not run: ")
    assert "'food' is a required property" in told
    assert last.startswith("Not run: ")
    assert (outcome.status, outcome.tool_calls.used, outcome.tool_calls.skipped) == ("landed", 1, 2)


async def test_at_a_limit_an_invalid_answer_keeps_its_rung():
    """At a limit an invalid answer is returned on the same rung, and the next answer has landed."""
    provider = ScriptedProvider([LOOKS, bad(), GOOD])
    outcome = await outcome_of(shaped(provider, 1))
    assert [asked.choice for asked in provider.requests] == [Choice.AUTO, Choice.RESPOND, Choice.RESPOND]
    assert (outcome.status, outcome.landing.how, outcome.landing.requests) == ("landed", "force", 1)


async def test_a_cut_answer_has_no_output():
    """A cut answer has no `output`, because half an object is not valid."""
    half = calls(("respond", {"answer": {"food": "mi"}}), first_id=30, stop=Stop.TRUNCATED)
    outcome = await outcome_of(shaped(ScriptedProvider([half, half])))
    assert (outcome.status, outcome.output) == ("partial", None)
    assert outcome.answer.endswith("\n[truncated]")

"""Replies with far too many tool calls."""

import pytest

from run_specialist.loop.exchange import MOST_CALLS
from tests.loop_jobs import job, outcome_of, results
from tests.scripted_provider import ScriptedProvider, calls

pytestmark = pytest.mark.anyio


def looks(count):
    """Script one reply with this many calls of `look`."""
    return [("look", {"query": str(number)}) for number in range(count)]


async def test_s2_2_calls_above_the_maximum_are_dropped():
    """Of 10,000 calls with a limit of 20, 20 run, the other kept calls get a short result, and the rest are dropped."""
    provider = ScriptedProvider([calls(*looks(10_000)), calls(("respond", {"answer": "done"}), first_id=20_000)])
    outcome = await outcome_of(job(provider, 20))
    assert (outcome.status, outcome.answer) == ("landed", "done")
    assert (outcome.tool_calls.used, outcome.tool_calls.skipped) == (20, MOST_CALLS - 20)
    answered = results(provider.requests[1].messages[-1])
    assert len(answered) == MOST_CALLS
    assert "Not run: limit reached, look skipped." in answered
    assert sum(block["type"] == "tool_use" for block in provider.requests[1].messages[1].content) == MOST_CALLS
    assert outcome.warnings == ("the model made 10,000 tool calls in one reply; those after call 200 were dropped",)


async def test_respond_is_kept_after_too_many_calls():
    """A `respond` call is never dropped, however late it comes in the reply."""
    provider = ScriptedProvider([calls(*looks(MOST_CALLS + 50), ("respond", {"answer": "found"}))])
    outcome = await outcome_of(job(provider, 0))
    assert (outcome.status, outcome.answer) == ("landed", "found")
    assert outcome.tool_calls.skipped == MOST_CALLS

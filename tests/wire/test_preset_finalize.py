"""The preset `finalize` over the wire."""

import pytest

from tests.wire.simulator import policies
from tests.wire.simulator.replies import says
from tests.wire.specialists import NO_TOOLS, looks, note

pytestmark = pytest.mark.anyio


NOTICE = "Answer directly now, from what is here, without more tool calls."


async def test_s2_1_the_limit_spans_the_whole_run(ask):
    """The call limit applies to the run, not to a turn or a message: three turns use up three calls."""
    told = await ask(policies.ignores_everything("look"), "preset: finalize", "tool_calls_limit: 3")
    assert len(told.phases("finished")) == 3
    assert len(told.phases("skipped")) == len(told.requests) - 3
    assert (told.outcome.status, told.outcome.tool_calls.used) == ("partial", 3)


async def test_s2_2_a_batch_over_the_limit_skips_the_surplus_calls(ask):
    """Of 3 calls at N = 2, two run in order and the third gets "Not run".

    All results are in one message, in call order.
    """
    told = await ask([looks("a", "b", "c"), says("done")], "preset: finalize", "tool_calls_limit: 2")
    asked_for = [block["id"] for block in told.requests[1].messages[1]["content"]]
    blocks = told.requests[1].messages[2]["content"]
    assert len(told.requests[1].messages) == 3
    assert [block["tool_use_id"] for block in blocks] == asked_for
    assert [block["content"] for block in blocks[:2]] == [note("a"), note("b")]
    assert blocks[2]["content"].startswith("Not run: limit reached, look skipped.")
    assert [block.get("is_error", False) for block in blocks] == [False, False, True]
    assert told.phases("skipped") == asked_for[2:]
    assert told.phases("finished") == told.phases("started") == asked_for[:2]
    assert (told.outcome.tool_calls.used, told.outcome.tool_calls.skipped) == (2, 1)
    assert (told.outcome.status, told.outcome.answer) == ("landed", "done")


async def test_s2_4_the_notice_is_beside_the_first_skipped_result(ask):
    """With 3 calls at N = 2, only request 2 has the notice, once; it is the first counted landing request."""
    told = await ask([looks("a", "b", "c"), says("done")], "preset: finalize", "tool_calls_limit: 2")
    *ran, skipped = told.results[0]
    assert ran == [note("a"), note("b")]
    assert skipped.splitlines()[0] == "Not run: limit reached, look skipped."
    assert skipped.endswith(NOTICE)
    assert told.carrying(NOTICE) == [2]
    assert told.requests[1].raw.count(NOTICE.encode()) == 1
    assert (told.outcome.status, told.outcome.landing.how, told.outcome.landing.requests) == ("landed", "finalize", 1)


async def test_s2_3_s2_4_the_notice_comes_with_the_first_skipped_call(ask):
    """With 2 calls, then 1, at N = 2, the notice comes with the skipped third call, not at the limit itself."""
    told = await ask([looks("a", "b"), looks("c"), says("done")], "preset: finalize", "tool_calls_limit: 2")
    assert told.results[0] == [note("a"), note("b")]
    (result,) = told.results[1]
    skipped, notice = result.splitlines()
    assert skipped == "Not run: limit reached, look skipped."
    assert notice.endswith(NOTICE)
    assert told.choices == [None] * 3
    assert (told.outcome.status, told.outcome.landing.how, told.outcome.landing.requests) == ("landed", "finalize", 1)


async def test_s2_3_a_second_call_after_the_limit_leads_to_the_next_rung(ask):
    """The notice is in one result of the history; after another call, the next request allows no tool calls."""
    script = [looks("a", "b"), looks("c", "d"), looks("e"), says("done")]
    told = await ask(script, "preset: finalize", "tool_calls_limit: 2")
    assert told.carrying(NOTICE) == [3]
    assert NOTICE not in told.results[1][0]
    assert told.requests[-1].raw.count(NOTICE.encode()) == 1
    assert told.choices == [None, None, None, NO_TOOLS]
    assert told.results[2] == ["Not run: limit reached, look skipped."]
    assert (told.outcome.tool_calls.used, told.outcome.tool_calls.skipped) == (2, 3)
    assert (told.outcome.landing.how, told.outcome.landing.requests) == ("none", 2)


async def test_s2_3_an_answer_at_the_limit_causes_no_notice(ask_once):
    """Text at k = N is the answer: no notice and no landing request are sent."""
    told = await ask_once([looks("a", "b"), says("done")], "preset: finalize", "tool_calls_limit: 2")
    assert NOTICE.encode() not in told.requests[-1].raw
    assert (told.outcome.status, told.outcome.landing.how, told.outcome.landing.requests) == ("landed", "finalize", 0)

"""Answers beside calls whose results they cannot know go back to the model, once."""

import anyio
import pytest

from run_specialist import prompts
from run_specialist.budget import Kind
from run_specialist.loop.evidence import MARKS, ReturnReason
from run_specialist.loop.run import Run
from run_specialist.record.outcome import Exit
from run_specialist.tools.base import Tool
from tests.loop.founded_replies import INVENTED, READ, beside, responds
from tests.loop.stored_replies import looks
from tests.loop_jobs import job, outcome_of, results
from tests.scripted_provider import ScriptedProvider, says

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("quotes", [(), (INVENTED,), (READ, INVENTED), ({"source": "a", "quote": "note on 'a'"},)])
async def test_g_4_calls_beside_an_answer_run_and_the_answer_is_asked_for_again(quotes):
    """The calls run, `respond` gets an error between their results, and the next answer is taken."""
    provider = ScriptedProvider([looks(1), beside(*quotes), responds("late", READ)])
    outcome = await outcome_of(job(provider, 9))
    told = provider.requests[2].messages[-1]
    assert results(told) == ["note on 'a', part 0", prompts.TOO_EARLY, "note on 'b', part 0"]
    assert [block.get("is_error", False) for block in told.blocks] == [False, True, False]
    assert (outcome.status, outcome.answer) == ("answered", "late")
    assert (outcome.tool_calls.used, outcome.tool_calls.skipped) == (3, 0)


async def test_g_4_happens_once_a_run():
    """The second time `respond` ends the run, and the calls beside it are not run."""
    provider = ScriptedProvider([looks(1), beside(), beside(first_id=30, answer="again")])
    outcome = await outcome_of(job(provider, 9))
    assert (outcome.status, outcome.answer) == ("answered", "again")
    assert (outcome.tool_calls.used, outcome.tool_calls.skipped) == (3, 2)


async def test_g_4_only_results_of_earlier_turns_verify_a_quote():
    """Quotes of which one was not read before do not end the run; with `off` nothing is looked up."""
    for evidence, requests in (("check", 2), ("off", 3)):
        provider = ScriptedProvider([looks(1), beside(READ), responds("late")][:requests])
        outcome = await outcome_of(job(provider, 9, evidence=evidence))
        assert outcome.answer == ("early" if evidence == "check" else "late")


async def test_g_4_calls_over_the_budget_are_skipped_as_always_and_the_countdown_follows_call_order():
    """Calls within the budget run with their countdown, the rest is skipped, and the landing asks for the answer."""
    provider = ScriptedProvider([looks(1), beside(), responds("late", READ)])
    outcome = await outcome_of(job(provider, 2))
    assert results(provider.requests[2].messages[-1]) == [
        "note on 'a', part 0\n0 tool calls remaining",
        prompts.TOO_EARLY,
        "Not run: limit reached, look skipped.",
    ]
    assert (outcome.status, outcome.tool_calls.used, outcome.tool_calls.skipped) == ("landed", 2, 1)


async def test_g_4_s2_4_in_the_finalize_preset_the_notice_stands_at_the_end_of_the_results():
    """A batch that straddles the limit brings the notice, also where `respond` is among its calls."""
    provider = ScriptedProvider([looks(1), beside(), responds("late", READ)])
    outcome = await outcome_of(job(provider, 2, landing="finalize", augmenters=()))
    told = results(provider.requests[2].messages[-1])
    notice = prompts.landing_instruction("finalize", None)
    assert told == ["note on 'a', part 0", prompts.TOO_EARLY, f"Not run: limit reached, look skipped.\n{notice}"]
    assert (outcome.status, outcome.landing.how) == ("landed", "finalize")


async def test_g_4_without_budget_the_answer_is_taken():
    """When the reply itself spent the last turn, its answer is taken and nothing is run."""
    provider = ScriptedProvider([beside()])
    limits = {Kind.TURNS: 2}
    outcome = await outcome_of(job(provider, 9, limits=limits))
    assert (outcome.status, outcome.answer, outcome.tool_calls.used) == ("answered", "early", 0)


async def test_g_4_an_answer_that_is_never_given_again_is_kept():
    """If no other answer follows, the early one is the answer, marked, and partial."""
    provider = ScriptedProvider([looks(1), beside(READ, INVENTED, answer="early"), says(""), says("")])
    outcome = await outcome_of(job(provider, 9))
    assert (outcome.status, outcome.exit_code) == ("partial", Exit.OK)
    assert outcome.answer == f"early\n{MARKS[ReturnReason.TOO_EARLY]}"
    assert [quote.verified for quote in outcome.evidence] == [True, False]


async def test_g_4_an_abort_while_the_calls_run_leaves_one_result_for_each():
    """After an abort each call has its own result, with `respond` between them."""
    runs = []

    async def slow(query: str = "", part: int = 0) -> str:
        if query == "b":
            runs[0].abort()
            await anyio.sleep_forever()
        return f"note {query}"

    tool = Tool("look", "Look.", slow)
    runs.append(Run(job(ScriptedProvider([beside()]), 9, tools=[tool])))
    outcome = await runs[0].outcome()
    assert outcome.status == "aborted"
    assert results(runs[0].transcript[-1]) == [
        "note a",
        prompts.NOT_TAKEN,
        prompts.STOPPED.format(tool="look"),
    ]
    assert outcome.answer.count("early") == 1
    assert MARKS[ReturnReason.TOO_EARLY] in outcome.answer

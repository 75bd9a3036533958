"""The edges: every way in which a turn can end, and what the parent then gets."""

from dataclasses import replace

import pytest

from run_specialist.errors import ProviderError
from run_specialist.loop.run import Run
from run_specialist.prompts import DELIVERED
from run_specialist.providers.base import Choice
from run_specialist.providers.scripted import ScriptedProvider, calls, says
from run_specialist.record.messages import Reply, Stop
from run_specialist.record.outcome import Exit
from tests.loop_jobs import job, outcome_of, results

pytestmark = pytest.mark.anyio
LOOKS = calls(("look", {"query": "a"}))
ANSWER = calls(("respond", {"answer": "the answer"}), first_id=999)
EMPTY = says("")
THINKING = {"type": "thinking", "thinking": "hm", "signature": "s1"}


def cut(*wanted, first_id=50):
    """Script a reply that the length limit cut in its last call."""
    return calls(*wanted, first_id=first_id, stop=Stop.TRUNCATED)


async def test_x_4_respond_beside_other_calls_ends_the_run():
    """The others are not executed; each still gets its result on record."""
    events = []
    beside = calls(("look", {"query": "a"}), ("respond", {"answer": "yes"}), ("look", {"query": "b"}))
    provider = ScriptedProvider([beside])
    outcome = await outcome_of(job(provider, 9), events)
    assert (outcome.status, outcome.answer) == ("answered", "yes")
    assert (outcome.tool_calls.used, outcome.tool_calls.skipped) == (0, 2)
    called = [(event.id, event.phase) for event in events if event.event == "tool_call"]
    assert called == [("call_1", "skipped"), ("call_3", "skipped")]


async def test_x_3_respond_never_spends():
    """An answer by the last allowed call is not one call too many."""
    provider = ScriptedProvider([LOOKS, ANSWER])
    outcome = await outcome_of(job(provider, 2))
    assert (outcome.status, outcome.tool_calls.used) == ("answered", 1)


async def test_x_6_respond_cut_by_max_tokens_is_asked_for_again_with_more_room():
    """The cut turn does not enter the history: the same messages go out once more."""
    provider = ScriptedProvider([LOOKS, cut(("respond", {"answer": "the ans"})), ANSWER])
    outcome = await outcome_of(job(provider, 9))
    first, second = provider.requests[1:]
    assert first.messages == second.messages
    assert second.max_tokens > first.max_tokens
    assert (outcome.status, outcome.answer) == ("answered", "the answer")


async def test_x_6_respond_cut_twice_is_salvaged_and_marked():
    """What came through is the answer, marked as truncated, and the status says so."""
    provider = ScriptedProvider([cut(("respond", {"answer": "the"})), cut(("respond", {"answer": "the answ"}))])
    outcome = await outcome_of(job(provider, 9))
    assert (outcome.status, outcome.answer, outcome.exit_code) == ("partial", "the answ\n[truncated]", 0)
    assert "cut off" in outcome.error


async def test_x_6_respond_cut_to_nothing_is_salvaged_from_the_results():
    """`{}` twice: the answer is built from what was gathered."""
    provider = ScriptedProvider([LOOKS, cut(("respond", {})), cut(("respond", {}))])
    outcome = await outcome_of(job(provider, 9))
    assert outcome.status == "partial"
    assert "note on 'a'" in outcome.answer


async def test_x_6_text_cut_twice_is_kept():
    """Text that was cut is an answer, marked as truncated."""
    provider = ScriptedProvider([says("half", Stop.TRUNCATED), says("half a", Stop.TRUNCATED)])
    outcome = await outcome_of(job(provider, 9))
    assert (outcome.status, outcome.answer) == ("partial", "half a\n[truncated]")


async def test_x_6_a_tool_call_that_was_cut_is_never_executed():
    """Asked for again once; a second cut in a row is told so, spends nothing, and the run lands."""
    halves = [cut(("look", {"query": "ha"}), first_id=number) for number in (50, 60)]
    provider = ScriptedProvider([LOOKS, *halves, ANSWER])
    outcome = await outcome_of(job(provider, 9))
    assert [asked.messages for asked in provider.requests[1:3]] == [provider.requests[1].messages] * 2
    assert results(provider.requests[3].messages[-1])[0].startswith("Not run: your reply was cut off")
    assert provider.requests[3].choice is Choice.RESPOND
    assert outcome.tool_calls.used == 1
    assert (outcome.status, outcome.landing.reason) == ("landed", "tokens")
    assert outcome.tool_calls.skipped == 1


async def test_x_5_a_landing_for_another_reason_runs_no_calls_either():
    """Calls are left, but the run is landing: they are skipped and the next rung follows."""
    halves = [cut(("look", {"query": "ha"}), first_id=number) for number in (50, 60)]
    provider = ScriptedProvider([*halves, LOOKS, ANSWER])
    outcome = await outcome_of(job(provider, 9))
    assert (outcome.tool_calls.used, outcome.tool_calls.skipped) == (0, 2)
    assert results(provider.requests[-1].messages[-1])[0].startswith("Not run: limit reached")
    assert (outcome.status, outcome.landing.how) == ("landed", "order")


async def test_a_salvage_of_nothing_is_a_failure():
    """With nothing gathered there is no partial answer: failed, exit code 4."""
    outcome = await outcome_of(job(ScriptedProvider([]), 0, landing="stop"))
    assert (outcome.status, outcome.exit_code, outcome.answer) == ("failed", Exit.NO_ANSWER, "")


async def test_x_6_a_later_cut_is_told_and_the_run_goes_on():
    """The one retry of the run is spent: a lone cut is answered with an error and the model may go on."""
    halves = [cut(("look", {}), first_id=number) for number in (50, 60)]
    again = calls(("look", {"query": "b"}), first_id=2)
    provider = ScriptedProvider([halves[0], LOOKS, halves[1], again, ANSWER])
    outcome = await outcome_of(job(provider, 9))
    assert (outcome.status, outcome.tool_calls.used, outcome.landing) == ("answered", 2, None)


async def test_x_7_an_empty_answer_is_asked_for_once_more():
    """Thinking alone is empty; the same request goes out again."""
    silent = Reply(Stop.ANSWERED, (THINKING,))
    provider = ScriptedProvider([LOOKS, silent, says("now")])
    outcome = await outcome_of(job(provider, 9))
    assert provider.requests[1].messages == provider.requests[2].messages
    assert (outcome.status, outcome.answer) == ("answered", "now")


@pytest.mark.parametrize("empty", [EMPTY, says("  \n"), calls(("respond", {"answer": " "})), calls(("respond", {}))])
async def test_x_7_two_empty_answers_fail_with_the_evidence_kept(empty):
    """No answer can be had: exit code 4, and what was gathered is in the outcome."""
    provider = ScriptedProvider([LOOKS, empty, empty])
    outcome = await outcome_of(job(provider, 9))
    assert (outcome.status, outcome.exit_code) == ("failed", Exit.NO_ANSWER)
    assert "note on 'a'" in outcome.answer
    assert outcome.evidence[0].quote == "note on 'a', part 0"


async def test_x_8_a_paused_turn_is_sent_back_as_is():
    """The paused turn stands in the history, nothing is added after it."""
    paused = says("still searching", Stop.PAUSED)
    provider = ScriptedProvider([paused, says("found")])
    outcome = await outcome_of(job(provider, 9))
    last = provider.requests[1].messages[-1]
    assert (last.role, last.content) == ("assistant", paused.content)
    assert outcome.answer == "found"


async def test_x_8_pauses_are_bounded():
    """A model that only pauses is given up, its last text kept."""
    provider = ScriptedProvider([says("wait", Stop.PAUSED)] * 6)
    outcome = await outcome_of(job(provider, 9))
    assert outcome.status == "partial"
    assert "wait" in outcome.answer


async def test_x_8_a_refusal_runs_nothing_and_says_so():
    """Calls beside a refusal are not executed; the category is told."""
    refusal = replace(calls(("look", {"query": "b"}), first_id=2), stop=Stop.REFUSED, reason="cyber")
    provider = ScriptedProvider([LOOKS, refusal])
    outcome = await outcome_of(job(provider, 9))
    assert (outcome.status, outcome.exit_code, outcome.tool_calls.used) == ("failed", Exit.NO_ANSWER, 1)
    assert "cyber" in outcome.error
    assert "note on 'a'" in outcome.answer


async def test_x_8_a_full_context_is_not_asked_again():
    """More room cannot help: the text so far is taken, else what was gathered."""
    full = replace(says("half", Stop.TRUNCATED), more_room_helps=False)
    outcome = await outcome_of(job(ScriptedProvider([LOOKS, full]), 9))
    assert (outcome.status, outcome.answer) == ("partial", "half\n[truncated]")
    wanted = replace(cut(("look", {})), more_room_helps=False)
    outcome = await outcome_of(job(ScriptedProvider([LOOKS, wanted]), 9))
    assert outcome.status == "partial"
    assert "note on 'a'" in outcome.answer


async def test_x_9_thinking_goes_back_unmodified():
    """The very blocks of the reply stand in the next request."""
    reply = Reply(Stop.WANTS_TOOLS, (THINKING, *LOOKS.content))
    provider = ScriptedProvider([reply, ANSWER])
    await outcome_of(job(provider, 9))
    assert provider.requests[1].messages[1].content == reply.content


@pytest.mark.parametrize("limit", [1, 9])
async def test_x_12_when_the_api_is_down_the_gathered_work_is_kept(limit):
    """At the landing or before: failed, exit code 3, the salvage stands in the answer."""
    provider = ScriptedProvider([LOOKS, ProviderError("the API is down")])
    outcome = await outcome_of(job(provider, limit))
    assert (outcome.status, outcome.exit_code, outcome.error) == ("failed", Exit.PROVIDER, "the API is down")
    assert "note on 'a'" in outcome.answer
    assert outcome.evidence[0].quote == "note on 'a', part 0"
    assert "the API is down" in outcome.warnings


async def test_an_api_that_is_down_from_the_start_yields_an_outcome():
    """Nothing was gathered, so the answer is empty."""
    outcome = await outcome_of(job(ScriptedProvider([ProviderError("down")]), 9))
    assert (outcome.status, outcome.answer, outcome.evidence) == ("failed", "", ())


async def test_evidence_is_looked_up_in_the_results():
    """A quote is verified when a result holds it, white space folded; an unfound one is a warning."""
    evidence = [
        {"source": "n.md:1", "quote": "note on\n 'a'"},
        {"source": "n.md:2", "quote": "made up"},
        {"source": "n.md:3", "quote": " "},
    ]
    provider = ScriptedProvider([LOOKS, calls(("respond", {"answer": "x", "evidence": evidence}), first_id=2)])
    outcome = await outcome_of(job(provider, 9))
    assert [one.verified for one in outcome.evidence] == [True, False, False]
    assert any("made up" in warning for warning in outcome.warnings)


async def test_evidence_may_span_lines_that_a_tool_has_numbered():
    """The tools' own line prefixes do not stand in the way of a quote."""
    from run_specialist.tools.base import Tool

    read = Tool("look", "Reads.", lambda query: "    41\tone line\n    42\tand the next\nn.md:7: a hit")
    quotes = [{"source": "n.md:41", "quote": "one line\nand the next"}, {"source": "n.md:7", "quote": "a hit"}]
    provider = ScriptedProvider([LOOKS, calls(("respond", {"answer": "x", "evidence": quotes}), first_id=2)])
    outcome = await outcome_of(job(provider, 9, tools=[read]))
    assert [one.verified for one in outcome.evidence] == [True, True]


async def test_of_two_answers_in_a_turn_the_first_that_says_something_counts():
    """An empty `respond` beside a full one is passed over."""
    both = calls(("respond", {"answer": ""}), ("respond", {"answer": "yes"}))
    outcome = await outcome_of(job(ScriptedProvider([both]), 9))
    assert (outcome.status, outcome.answer) == ("answered", "yes")


@pytest.mark.parametrize(("answer", "text"), [(42, "42"), (["a", "b"], '["a", "b"]'), ({"x": 1}, '{"x": 1}')])
async def test_an_answer_of_another_type_is_taken_as_text(answer, text):
    """A model that answers with a number or a list has answered."""
    outcome = await outcome_of(job(ScriptedProvider([calls(("respond", {"answer": answer}))]), 9))
    assert (outcome.status, outcome.answer) == ("answered", text)


async def test_x_4_after_the_end_every_call_in_the_transcript_has_its_result():
    """Whoever keeps the transcript can go on from it: `respond` and the calls beside it are answered."""
    beside = calls(("look", {"query": "a"}), ("respond", {"answer": "yes"}))
    run = Run(job(ScriptedProvider([beside]), 9))
    await run.outcome()
    called, answered = run.transcript[-2:]
    assert [block["id"] for block in called.content] == [block["tool_use_id"] for block in answered.content]
    assert results(answered) == ["Not run: `respond` in the same turn ended the run before look.", DELIVERED]


async def test_x_8_a_pause_at_the_landing_keeps_its_rung_and_is_bounded():
    """It is sent back as is under the same choice; after three answered landing requests the answer is salvaged."""
    pauses = [says(f"wait {number}", Stop.PAUSED) for number in range(3)]
    provider = ScriptedProvider([LOOKS, *pauses])
    outcome = await outcome_of(job(provider, 1))
    assert [asked.choice for asked in provider.requests[1:]] == [Choice.RESPOND] * 3
    assert (outcome.status, outcome.landing.requests) == ("partial", 3)
    assert "note on 'a'" in outcome.answer


async def test_s0_10_an_empty_answer_at_the_landing_counts_as_a_request():
    """Asked for twice, answered with nothing: failed, and the outcome says that the landing was tried."""
    provider = ScriptedProvider([LOOKS, EMPTY, EMPTY])
    outcome = await outcome_of(job(provider, 1))
    assert (outcome.status, outcome.landing.how, outcome.landing.requests) == ("failed", "salvage", 1)


async def test_landing_finalize_is_told_as_such_when_the_model_ends_by_itself():
    """Text at k = N, before any notice: the landing was `finalize`, and no counted request was needed."""
    outcome = await outcome_of(job(ScriptedProvider([LOOKS, says("done")]), 1, landing="finalize"))
    assert (outcome.status, outcome.landing.how, outcome.landing.requests) == ("landed", "finalize", 0)


async def test_a_mistake_of_ours_costs_nothing_that_was_gathered():
    """An error that nobody foresaw is told in the outcome, with the salvage in the answer."""
    outcome = await outcome_of(job(ScriptedProvider([LOOKS, RuntimeError("bug")]), 9))
    assert (outcome.status, outcome.exit_code) == ("failed", Exit.NO_ANSWER)
    assert "internal error: RuntimeError('bug')" in outcome.error
    assert "note on 'a'" in outcome.answer


async def test_tokens_turns_and_time_are_counted_without_a_limit():
    """The outcome tells what was spent of every kind."""
    outcome = await outcome_of(job(ScriptedProvider([LOOKS, says("done")]), 9))
    assert (outcome.limits["tokens"].used, outcome.limits["turns"].used) == (30, 2)
    assert outcome.limits["time"].used >= 0
    assert outcome.limits["cost"].used == outcome.cost_usd == pytest.approx(0.0003)


async def test_a_cost_that_cannot_be_known_is_none_and_never_0():
    """Without a price the outcome says so, in the total and for the landing."""
    provider = ScriptedProvider([LOOKS, calls(("respond", {"answer": "done"}), first_id=9)], priced=False)
    outcome = await outcome_of(job(provider, 1))
    assert (outcome.cost_usd, outcome.limits["cost"].used, outcome.landing.cost_usd) == (None, None, None)
    assert outcome.landing.usage.total_tokens == 15

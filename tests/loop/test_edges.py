"""All the ways in which a turn can end, and the outcome of each."""

from dataclasses import replace

import pytest

from run_specialist.errors import ProviderError
from run_specialist.loop.run import Run
from run_specialist.prompts import DELIVERED
from run_specialist.providers.base import Choice
from run_specialist.record.messages import Reply, Stop
from run_specialist.record.outcome import Exit
from tests.loop_jobs import job, outcome_of, results
from tests.scripted_provider import ScriptedProvider, calls, says

pytestmark = pytest.mark.anyio
LOOKS = calls(("look", {"query": "a"}))
ANSWER = calls(("respond", {"answer": "the answer"}), first_id=999)
THINKING = {"type": "thinking", "thinking": "hm", "signature": "s1"}


def cut(*wanted, first_id=50):
    """Script a reply that the length limit cut in its last call."""
    return calls(*wanted, first_id=first_id, stop=Stop.TRUNCATED)


BESIDE = calls(
    ("look", {"query": "a"}),
    ("respond", {"answer": "yes", "evidence": [{"source": "a", "quote": "note on 'a'"}]}),
    ("look", {"query": "b"}),
    first_id=11,
)


@pytest.mark.parametrize("limit", [9, 1], ids=["quotes verified", "landing"])
async def test_x_4_respond_beside_other_calls_ends_the_run(limit):
    """`respond` ends the run at the landing, and where its quotes were read before; each other call has a result."""
    events = []
    provider = ScriptedProvider([LOOKS, BESIDE])
    outcome = await outcome_of(job(provider, limit), events)
    assert (outcome.status, outcome.answer) == ("landed" if limit == 1 else "answered", "yes")
    assert (outcome.tool_calls.used, outcome.tool_calls.skipped) == (1, 2)
    called = [(event.id, event.phase) for event in events if event.event == "tool_call"]
    assert called[2:] == [("call_11", "skipped"), ("call_13", "skipped")]


async def test_x_6_a_cut_respond_is_requested_again_with_a_larger_limit():
    """A `respond` cut by max_tokens stays out of the history; the same messages are sent with a larger limit."""
    provider = ScriptedProvider([LOOKS, cut(("respond", {"answer": "the ans"})), ANSWER])
    outcome = await outcome_of(job(provider, 9))
    first, second = provider.requests[1:]
    assert first.messages == second.messages
    assert second.max_tokens > first.max_tokens
    assert (outcome.status, outcome.answer) == ("answered", "the answer")


async def test_x_6_respond_cut_twice_is_salvaged_and_marked():
    """A `respond` cut twice gives a partial answer, marked as truncated, and the matching status."""
    provider = ScriptedProvider([cut(("respond", {"answer": "the"})), cut(("respond", {"answer": "the answ"}))])
    outcome = await outcome_of(job(provider, 9))
    assert (outcome.status, outcome.answer, outcome.exit_code) == ("partial", "the answ\n[truncated]", 0)
    assert "cut off" in outcome.error


async def test_x_6_respond_cut_to_nothing_is_salvaged_from_the_results():
    """If `respond` is cut to `{}` twice, the answer is salvaged from the tool results."""
    provider = ScriptedProvider([LOOKS, cut(("respond", {})), cut(("respond", {}))])
    outcome = await outcome_of(job(provider, 9))
    assert outcome.status == "partial"
    assert "note on 'a'" in outcome.answer


async def test_x_6_a_cut_tool_call_is_never_executed():
    """A cut tool call is not executed but requested again; after a second cut it is an error and the run lands."""
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
    """A landing for another reason than the call limit skips the remaining calls and moves to the next rung."""
    halves = [cut(("look", {"query": "ha"}), first_id=number) for number in (50, 60)]
    provider = ScriptedProvider([*halves, LOOKS, ANSWER])
    outcome = await outcome_of(job(provider, 9))
    assert (outcome.tool_calls.used, outcome.tool_calls.skipped) == (0, 2)
    assert results(provider.requests[-1].messages[-1])[0].startswith("Not run: limit reached")
    assert (outcome.status, outcome.landing.how) == ("landed", "order")


async def test_x_7_an_empty_answer_is_requested_once_more():
    """A reply with only thinking counts as empty, and the same request is sent once more."""
    silent = Reply(Stop.ANSWERED, (THINKING,))
    provider = ScriptedProvider([LOOKS, silent, says("now")])
    outcome = await outcome_of(job(provider, 9))
    assert provider.requests[1].messages == provider.requests[2].messages
    assert (outcome.status, outcome.answer) == ("answered", "now")


@pytest.mark.parametrize("empty", [says(""), says("  \n"), calls(("respond", {"answer": " "})), calls(("respond", {}))])
async def test_x_7_two_empty_answers_fail_with_the_evidence_kept(empty):
    """After two empty answers the run fails with exit code 4, and the outcome holds the gathered results."""
    provider = ScriptedProvider([LOOKS, empty, empty])
    outcome = await outcome_of(job(provider, 9))
    assert (outcome.status, outcome.exit_code) == ("failed", Exit.NO_ANSWER)
    assert "note on 'a'" in outcome.answer
    assert outcome.evidence[0].quote == "note on 'a', part 0"


async def test_x_8_a_paused_turn_is_sent_back_as_is():
    """A paused turn is sent back unchanged as the last message of the history."""
    paused = says("still searching", Stop.PAUSED)
    provider = ScriptedProvider([paused, says("found")])
    outcome = await outcome_of(job(provider, 9))
    last = provider.requests[1].messages[-1]
    assert (last.role, last.content) == ("assistant", paused.content)
    assert outcome.answer == "found"


async def test_x_8_the_number_of_pauses_is_limited():
    """A model that only pauses is stopped, and its last text becomes the answer."""
    provider = ScriptedProvider([says("wait", Stop.PAUSED)] * 6)
    outcome = await outcome_of(job(provider, 9))
    assert outcome.status == "partial"
    assert "wait" in outcome.answer


async def test_x_8_a_refusal_runs_no_calls_and_names_its_category():
    """After a refusal no calls run, and the outcome names the refusal category."""
    refusal = replace(calls(("look", {"query": "b"}), first_id=2), stop=Stop.REFUSED, reason="cyber")
    provider = ScriptedProvider([LOOKS, refusal])
    outcome = await outcome_of(job(provider, 9))
    assert (outcome.status, outcome.exit_code, outcome.tool_calls.used) == ("failed", Exit.NO_ANSWER, 1)
    assert "cyber" in outcome.error
    assert "note on 'a'" in outcome.answer


async def test_x_8_a_full_context_is_not_retried():
    """A full context is not retried: the text so far becomes the answer, otherwise the gathered results do."""
    full = replace(says("half", Stop.TRUNCATED), more_room_helps=False)
    outcome = await outcome_of(job(ScriptedProvider([LOOKS, full]), 9))
    assert (outcome.status, outcome.answer) == ("partial", "half\n[truncated]")
    wanted = replace(cut(("look", {})), more_room_helps=False)
    outcome = await outcome_of(job(ScriptedProvider([LOOKS, wanted]), 9))
    assert outcome.status == "partial"
    assert "note on 'a'" in outcome.answer


async def test_x_9_thinking_goes_back_unmodified():
    """The thinking blocks of a reply are sent back unchanged in the next request."""
    reply = Reply(Stop.WANTS_TOOLS, (THINKING, *LOOKS.content))
    provider = ScriptedProvider([reply, ANSWER])
    await outcome_of(job(provider, 9))
    assert provider.requests[1].messages[1].content == reply.content


@pytest.mark.parametrize("limit", [1, 9])
async def test_x_12_an_api_failure_keeps_the_gathered_results(limit):
    """If the API fails before or during the landing, the run fails with exit code 3 and a salvaged answer."""
    provider = ScriptedProvider([LOOKS, ProviderError("the API is down")])
    outcome = await outcome_of(job(provider, limit))
    assert (outcome.status, outcome.exit_code, outcome.error) == ("failed", Exit.PROVIDER, "the API is down")
    assert "note on 'a'" in outcome.answer
    assert outcome.evidence[0].quote == "note on 'a', part 0"
    assert "the API is down" in outcome.warnings


async def test_quotes_are_verified_against_the_tool_results():
    """A quote is verified if a result contains it, ignoring white space; otherwise a warning is added."""
    evidence = [
        {"source": "n.md:1", "quote": "note on\n 'a'"},
        {"source": "n.md:2", "quote": "made up"},
        {"source": "n.md:3", "quote": " "},
    ]
    provider = ScriptedProvider([LOOKS, calls(("respond", {"answer": "x", "evidence": evidence}), first_id=2)])
    outcome = await outcome_of(job(provider, 9))
    assert [one.verified for one in outcome.evidence] == [True, False, False]
    assert any("made up" in warning for warning in outcome.warnings)


async def test_of_two_respond_calls_the_first_nonempty_one_counts():
    """With two `respond` calls in a turn, an empty one is ignored in favor of the other."""
    both = calls(("respond", {"answer": ""}), ("respond", {"answer": "yes"}))
    outcome = await outcome_of(job(ScriptedProvider([both]), 9))
    assert (outcome.status, outcome.answer) == ("answered", "yes")


@pytest.mark.parametrize(("answer", "text"), [(42, "42"), (["a", "b"], '["a", "b"]'), ({"x": 1}, '{"x": 1}')])
async def test_a_number_or_list_as_answer_is_accepted_as_text(answer, text):
    """A number or a list given as the answer is accepted as text."""
    outcome = await outcome_of(job(ScriptedProvider([calls(("respond", {"answer": answer}))]), 9))
    assert (outcome.status, outcome.answer) == ("answered", text)


async def test_x_4_every_call_in_a_finished_transcript_has_a_result():
    """At the end of a run every call in the transcript has a result, including `respond` and the calls beside it."""
    run = Run(job(ScriptedProvider([LOOKS, BESIDE]), 9))
    await run.outcome()
    called, answered = run.transcript[-2:]
    assert [block["id"] for block in called.content] == [block["tool_use_id"] for block in answered.content]
    not_run = "Not run: `respond` in the same turn ended the run before look."
    assert results(answered) == [not_run, DELIVERED, not_run]


async def test_x_8_a_pause_at_the_landing_keeps_its_tool_choice():
    """A pause at the landing is sent back under the same tool choice; after three requests, salvage follows."""
    pauses = [says(f"wait {number}", Stop.PAUSED) for number in range(3)]
    provider = ScriptedProvider([LOOKS, *pauses])
    outcome = await outcome_of(job(provider, 1))
    assert [asked.choice for asked in provider.requests[1:]] == [Choice.RESPOND] * 3
    assert (outcome.status, outcome.landing.requests) == ("partial", 3)
    assert "note on 'a'" in outcome.answer


async def test_text_at_the_limit_lands_as_finalize_without_landing_requests():
    """Text at k = N, before any notice, lands as `finalize` with no landing requests counted."""
    outcome = await outcome_of(job(ScriptedProvider([LOOKS, says("done")]), 1, landing="finalize"))
    assert (outcome.status, outcome.landing.how, outcome.landing.requests) == ("landed", "finalize", 0)


async def test_an_internal_error_keeps_the_gathered_results():
    """After an internal error the outcome names the error and the answer holds the gathered results."""
    outcome = await outcome_of(job(ScriptedProvider([LOOKS, RuntimeError("bug")]), 9))
    assert (outcome.status, outcome.exit_code) == ("failed", Exit.NO_ANSWER)
    assert "internal error: RuntimeError('bug')" in outcome.error
    assert "note on 'a'" in outcome.answer

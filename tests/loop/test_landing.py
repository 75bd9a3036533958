"""Soft landing in the loop, and all the ways in which a turn can end: complete transcripts with a scripted model."""

import json
from dataclasses import replace

import pytest

from run_specialist.budget import Kind
from run_specialist.loop.exchange import MOST_CALLS
from run_specialist.providers.base import Choice
from run_specialist.record.journal import Received
from run_specialist.record.messages import Stop, Usage
from run_specialist.record.outcome import Exit
from run_specialist.tools.base import Tool
from tests.loop.replies import beside, looks, looks_for, responds
from tests.loop_jobs import job, outcome_of, results
from tests.scripted_provider import ScriptedProvider, calls, says

ANSWER = calls(("respond", {"answer": "the answer"}), first_id=999)


async def test_s0_8_without_a_limit_there_is_no_notice_and_no_forced_choice():
    """With `none` there is no notice, no countdown and no forced choice, however many calls run."""
    provider = ScriptedProvider([*map(looks, range(1, 41)), says("done")])
    outcome = await outcome_of(job(provider, None))
    assert "Tool budget" not in provider.opening.system
    assert not [asked for asked in provider.requests if "remaining" in str(asked.messages)]
    assert {asked.choice for asked in provider.requests} == {Choice.AUTO}
    assert (outcome.status, outcome.answer, outcome.landing) == ("answered", "done", None)


async def test_landing_prompt_replaces_the_landing_instruction():
    """`landing_prompt` of the file replaces the default landing instruction."""
    provider = ScriptedProvider([looks(1), ANSWER])
    await outcome_of(job(provider, 1, landing="order", landing_prompt="Come home."))
    assert results(provider.requests[1].messages[-1])[0].endswith("\n0 tool calls remaining\nCome home.")


async def test_a_quote_from_the_part_that_the_character_limit_cut_off_is_not_verified():
    """Evidence is checked against what the model could read: of two results of 60 characters, 100 in total."""
    quotes = [{"source": "", "quote": quote} for quote in ("first seen", "second seen", "second unseen")]
    provider = ScriptedProvider([looks_for("first", "second"), responds("yes", *quotes)])

    async def note(query: str) -> str:
        return f"{query} seen".ljust(40, ".") + f"{query} unseen".rjust(20, ".")

    tool = Tool("look", "Looks.", note)
    outcome = await outcome_of(job(provider, 30, tools=[tool], limits={Kind.CHARACTERS: 100}))
    assert [quote.verified for quote in outcome.evidence] == [True, True, False]


async def test_characters_are_counted_after_truncation_without_added_lines():
    """Characters are counted after truncation by `tool_result_limit` and without the lines that the program adds."""
    tool = Tool("look", "Look.", lambda query: "x" * 50)
    provider = ScriptedProvider([looks(1), looks(2), ANSWER])
    made = job(provider, 2, tools=[tool], tool_result_limit=20)
    outcome = await outcome_of(made)
    assert outcome.limits["characters"].used == 40


async def test_x_14_tokens_are_estimated_if_the_server_reports_no_usage():
    """If the server reports no usage, tokens are estimated, and the outcome warns of it once."""
    provider = ScriptedProvider([replace(reply, usage=Usage()) for reply in (looks(1), looks(2), ANSWER)])
    outcome = await outcome_of(job(provider, 30, question="why? " * 1_000, limits={Kind.TOKENS: 7_500}))
    assert (outcome.status, outcome.landing.reason) == ("landed", "tokens")
    assert 3_000 < outcome.limits["tokens"].used <= 7_500
    assert outcome.warnings == ("the server reports no token usage; it is estimated",)


async def test_x_14_no_tokens_are_estimated_without_a_language_model():
    """For a provider that is not a language model no tokens are estimated, and no warning is added."""
    provider = ScriptedProvider([replace(reply, usage=Usage()) for reply in (looks(1), ANSWER)])
    provider.capabilities = replace(provider.capabilities, is_language_model=False)
    outcome = await outcome_of(job(provider, 30, limits={Kind.TOKENS: 7_500}))
    assert (outcome.limits["tokens"].used, outcome.warnings) == (0, ())


LOOKS = looks_for("a")


def cut(*wanted, first_id=50):
    """Script a reply that the length limit cut in its last call."""
    return calls(*wanted, first_id=first_id, stop=Stop.TRUNCATED)


@pytest.mark.parametrize("limit", [9, 1], ids=["quotes verified", "landing"])
async def test_x_4_respond_beside_other_calls_ends_the_run(limit):
    """`respond` ends the run at the landing, and where its quotes were read before; each other call has a result."""
    events = []
    provider = ScriptedProvider([LOOKS, beside({"source": "a", "quote": "note on 'a'"}, answer="yes", first_id=11)])
    outcome = await outcome_of(job(provider, limit), events)
    assert (outcome.status, outcome.answer) == ("landed" if limit == 1 else "answered", "yes")
    assert (outcome.tool_calls.used, outcome.tool_calls.skipped) == (1, 2)
    called = [(event.id, event.phase) for event in events if event.event == "tool_call"]
    assert called[2:] == [("call_11", "skipped"), ("call_13", "skipped")]


async def test_x_6_respond_cut_twice_is_salvaged_and_marked():
    """A `respond` cut twice gives a partial answer, marked as truncated; cut to `{}`, it is made from the results."""
    provider = ScriptedProvider([cut(("respond", {"answer": "the"})), cut(("respond", {"answer": "the answ"}))])
    outcome = await outcome_of(job(provider, 9))
    assert (outcome.status, outcome.answer, outcome.exit_code) == ("partial", "the answ\n[truncated]", 0)
    assert "cut off" in outcome.error
    outcome = await outcome_of(job(ScriptedProvider([LOOKS, cut(("respond", {})), cut(("respond", {}))]), 9))
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


@pytest.mark.parametrize("empty", [says(""), says("  \n"), calls(("respond", {"answer": " "})), calls(("respond", {}))])
async def test_x_7_two_empty_answers_fail_with_the_evidence_kept(empty):
    """After two empty answers the run fails with exit code 4, and the outcome holds the gathered results."""
    provider = ScriptedProvider([LOOKS, empty, empty])
    outcome = await outcome_of(job(provider, 9))
    assert (outcome.status, outcome.exit_code) == ("failed", Exit.NO_ANSWER)
    assert "note on 'a'" in outcome.answer
    assert outcome.evidence[0].quote == "note on 'a', part 0"


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


# The rung `schema` in stored, resumed and summarized runs, with a scripted model.
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


@pytest.mark.exhaustive
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


@pytest.mark.exhaustive
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


async def test_x_7_an_empty_answer_in_json_is_asked_for_once_more():
    """Valid JSON with an empty answer is an empty answer: one retry, then the run fails."""
    empty = says(json.dumps({"answer": " ", "evidence": None, "gaps": None}))
    provider = ScriptedProvider([looks(1), empty, empty], schema=True)
    outcome = await outcome_of(job(provider, 1, landing="schema"))
    assert (outcome.status, outcome.exit_code) == ("failed", 4)


async def test_s2_2_calls_above_the_maximum_are_dropped():
    """Of 2,000 calls with a limit of 20, 20 run, the other kept calls get a short result, and the rest are dropped."""
    provider = ScriptedProvider([looks(1, 2_000), responds("done", first_id=5_000)])
    outcome = await outcome_of(job(provider, 20))
    assert (outcome.status, outcome.answer) == ("landed", "done")
    assert (outcome.tool_calls.used, outcome.tool_calls.skipped) == (20, MOST_CALLS - 20)
    answered = results(provider.requests[1].messages[-1])
    assert len(answered) == MOST_CALLS
    assert "Not run: limit reached, look skipped." in answered
    assert sum(block["type"] == "tool_use" for block in provider.requests[1].messages[1].content) == MOST_CALLS
    assert outcome.warnings == ("the model made 2,000 tool calls in one reply; those after call 200 were dropped",)


async def test_respond_is_kept_after_too_many_calls():
    """A `respond` call is never dropped, however late it comes in the reply."""
    many = [("look", {"query": "a"})] * (MOST_CALLS + 50)
    provider = ScriptedProvider([calls(*many, ("respond", {"answer": "found"}))])
    outcome = await outcome_of(job(provider, 0))
    assert (outcome.status, outcome.answer) == ("landed", "found")
    assert outcome.tool_calls.skipped == MOST_CALLS

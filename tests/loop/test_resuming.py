"""Resumed runs: the messages that the model receives, and the counters."""

import json
from itertools import pairwise

import pytest

from run_specialist import prompts
from tests.loop.stored_replies import ANSWER, REFRESHED, THREE, everything, looks
from tests.loop_jobs import results
from tests.scripted_provider import calls, says

pytestmark = pytest.mark.anyio


MORE = calls(("respond", {"answer": "More."}), first_id=91)


async def test_s4_5_a_run_with_three_calls_is_resumed_with_a_total_of_six(desk):
    """A run with 3 calls resumed with a total of 6 continues counting, and its earlier messages are unchanged."""
    first = await desk.ask(*THREE, ANSWER, tool_calls_limit=3)
    assert (first.outcome.status, first.outcome.tool_calls.used) == ("landed", 3)
    again = await desk.go_on(looks(4), looks(5), looks(6), looks(7), MORE, tool_calls_limit=6)
    assert (again.outcome.status, again.outcome.answer) == ("landed", "More.")
    assert (again.outcome.tool_calls.used, again.outcome.tool_calls.limit, again.outcome.tool_calls.skipped) == (
        6,
        6,
        1,
    )
    assert [event.id for event in again.named("tool_call") if event.phase == "finished"] == [
        "call_4",
        "call_5",
        "call_6",
    ]
    said = everything(first.run.transcript)
    # The last message had not been sent yet, so the resume note could be added to it.
    assert everything(again.requests[0].messages)[:-1] == said[:-1]
    for one, two in pairwise(again.requests):
        assert everything(two.messages)[: len(one.messages) - 1] == everything(one.messages)[:-1]
    assert again.provider.opening.system == first.provider.opening.system
    assert [tool.definition for tool in again.provider.opening.tools] == [
        tool.definition for tool in first.provider.opening.tools
    ]


async def test_s4_5_the_countdown_is_relative_to_the_new_total(desk):
    """With 3 of 6 calls used, the countdown of further results is relative to the new total."""
    await desk.ask(*THREE, ANSWER, tool_calls_limit=3)
    again = await desk.go_on(looks(4), looks(5), ANSWER, tool_calls_limit=6)
    told = [results(asked.messages[-1])[-1].splitlines()[-1] for asked in again.requests[1:]]
    assert told == ["2 tool calls remaining", "1 tool call remaining"]
    assert [event.used for event in again.named("budget")] == [4, 5]
    assert again.outcome.status == "answered"


async def test_s3_8_the_resume_note_is_inside_the_last_result_once(desk):
    """The resume note is added once, with its exact text, inside the result of `respond`, never behind results."""
    await desk.ask(*THREE, ANSWER, tool_calls_limit=3)
    again = await desk.go_on(looks(4), ANSWER, tool_calls_limit=6)
    (block,) = again.requests[0].messages[-1].content
    assert (block["type"], block["content"]) == ("tool_result", f"{prompts.DELIVERED}\n{REFRESHED}")
    assert sum(b"refreshed" in message for message in everything(again.requests[-1].messages)) == 1
    (event,) = again.named("resumed")
    assert (event.note, event.used["tool_calls"]) == (REFRESHED, 3)


async def test_s3_8_after_a_text_answer_the_resume_note_is_a_user_message(desk):
    """After a text answer the resume note is a user message, and new questions follow the answer."""
    first = await desk.ask(looks(1), says("Owls."))
    assert first.outcome.answer == "Owls."
    again = await desk.go_on(says("Toads."), question="And what else?")
    *before, answer, asked = again.requests[0].messages
    assert [message.role for message in before] == ["user", "assistant", "user"]
    assert answer.content == ({"type": "text", "text": "Owls."},)
    assert asked.content == ({"type": "text", "text": "The user now asks: And what else?"},)
    assert (again.outcome.answer, again.outcome.status) == ("Toads.", "answered")


LIMITS = {
    "turns_limit": (2, "you now have 9 turns in all, of which 2 are used, so 7 turns remain"),
    "total_tokens_limit": (25, "you now have 100,000 tokens in all, of which 30 are used, so 99,970 tokens remain"),
    "cost_limit": (0.0001, "you now have $9.00 in all, of which $0.0003 are used, so $9.00 remain"),
    "tool_chars_limit": (
        19,
        "you now have 100,000 characters in all, of which 19 are used, so 99,981 characters remain",
    ),
}


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize("key", LIMITS)
async def test_s3_8_a_raised_limit_of_any_kind_continues_from_the_used_amount(desk, key):
    """A raised limit of any kind continues from the used amount, and the run no longer lands at the old total."""
    limit, words = LIMITS[key]
    first = await desk.ask(looks(1), ANSWER, **{key: limit})
    assert first.outcome.status == "landed", first.outcome
    new = {"turns_limit": 9, "cost_limit": 9.0}.get(key, 100_000)
    again = await desk.go_on(looks(4), ANSWER, **{key: new})
    assert words in again.named("resumed")[0].note
    assert again.outcome.status == "answered"
    kind = first.outcome.landing.reason
    assert again.outcome.limits[kind].limit == new
    assert again.outcome.limits[kind].used > first.outcome.limits[kind].used > 0
    assert again.outcome.usage.total_tokens == 4 * 15
    assert again.outcome.limits["turns"].used == 4


async def test_a_follow_up_within_the_old_limits_adds_no_budget_note(desk):
    """A follow-up within the old limits adds no budget note; if the budget is spent, the run lands immediately."""
    await desk.ask(looks(1), ANSWER)
    again = await desk.go_on(looks(4), ANSWER, question="Since when?")
    assert again.named("resumed")[0].note == "The user now asks: Since when?"
    await desk.ask(*THREE, ANSWER, tool_calls_limit=3)
    again = await desk.go_on(ANSWER, question="Since when?")
    assert again.requests[0].choice == "respond"
    assert again.outcome.status == "landed"


async def test_a_run_resumed_three_times_has_one_history(desk):
    """A run resumed three times has one history, one bill and consecutive event numbers."""
    await desk.ask(looks(1), ANSWER)
    for number in (2, 3, 4):
        again = await desk.go_on(looks(number), calls(("respond", {"answer": str(number)}), first_id=95 + number),
                                 question=f"And {number}?")  # fmt: skip
        assert again.outcome.answer == str(number)
        assert again.run.is_kept
    assert again.outcome.tool_calls.used == 4
    assert again.outcome.usage.total_tokens == 8 * 15
    run = desk.load()
    assert [event.number for event in run.events] == list(range(1, len(run.events) + 1))
    assert [event.body["event"] for event in run.events].count("finished") == 4
    assert [turn.number for turn in run.turns] == list(range(1, 9))
    assert run.transcript == again.run.transcript
    assert run.outcome == json.loads(json.dumps(again.outcome.as_json()))

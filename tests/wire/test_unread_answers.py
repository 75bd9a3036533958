"""Answers of models that read nothing, and calls that a server sends as text: what an endpoint is known to do."""

import pytest

from run_specialist.providers.knowledge import CALLS_AS_TEXT, UNREAD
from tests.loop_jobs import job, outcome_of
from tests.wire.chat.replies import answers, calls, says
from tests.wire.connected import asked, connected
from tests.wire.simulator.replies import says as says_blocks


@pytest.fixture
def warned(chat_api):
    """Return a function that plays one run after the other on one provider, and tells which of them were warned."""

    async def run(*scripts, limit=9, **settings):
        api = chat_api([reply for script in scripts for reply in script])
        async with connected(api) as provider:
            outcomes = [await outcome_of(job(provider, limit, **settings)) for _ in scripts]
        return [any("tool_calls: json may suit" in warning for warning in one.warnings) for one in outcomes]

    return run


async def test_g8_the_second_answer_without_a_call_suggests_json(warned):
    """The second run that ends without a call, by text or by `respond`, carries the suggestion, and no later one."""
    assert await warned([says("From memory.")], [answers("From memory.")], [says("Again.")]) == [False, True, False]


async def test_g8_an_answer_after_a_call_does_not_count(warned):
    """A run that has read something does not count, nor does an empty reply."""
    look = calls("look", {"query": "a"})
    assert await warned([look, says("x")], [look, answers("y")], [says(""), says("z")]) == [False] * 3


async def test_g8_messages_api_suggests_json_too(messages_api):
    """The same on the Messages API."""
    api = messages_api([says_blocks("One."), says_blocks("Two.")])
    async with connected(api) as provider:
        outcomes = [await outcome_of(job(provider)) for _ in range(2)]
    assert [UNREAD in outcome.warnings for outcome in outcomes] == [False, True]


async def test_g_3_calls_as_text_are_calls_in_every_run(chat_api):
    """A call that a server sends as text does not count as an answer without a call, and a warning does not hide it."""
    leaked = says('{"name": "look", "arguments": {"query": "a"}}')
    api = chat_api([reply for _ in range(3) for reply in (leaked, answers("yes"))])
    async with connected(api) as provider:
        outcomes = [await outcome_of(job(provider)) for _ in range(3)]
    assert [(one.tool_calls.used, one.answer) for one in outcomes] == [(1, "yes")] * 3
    assert [one.warnings for one in outcomes] == [(CALLS_AS_TEXT,)] * 3


async def test_g_3_a_forced_respond_as_text_is_the_answer(chat_api):
    """A server that writes the forced call as text has not ignored the force, and the run lands by it."""
    call = says('{"name": "respond", "arguments": {"answer": "mice"}}')
    api = chat_api([calls("look", {"query": "a"}), call])
    async with connected(api) as provider:
        outcome = await outcome_of(job(provider, 1, landing="force"))
    assert (outcome.status, outcome.answer, outcome.landing.how) == ("landed", "mice", "force")
    assert (outcome.warnings, provider.capabilities.forced_choice) == ((CALLS_AS_TEXT,), True)


async def test_g_3_with_an_unknown_finish_reason_a_call_stays_text(chat_api, messages_api):
    """Nobody knows why such a reply ended, so nothing in its text is run; on both APIs."""
    text = '{"name": "look", "arguments": {"query": "a"}}'
    chat = await asked(chat_api([says(text, finish_reason="odd")]))
    messages = await asked(messages_api([says_blocks(text, stop_reason="odd")]))
    assert [(one.answer, one.tool_calls.used) for one in (chat, messages)] == [(text, 0)] * 2

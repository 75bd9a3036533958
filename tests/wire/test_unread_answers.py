"""An endpoint whose models answer without reading: `tool_calls: json` is suggested."""

import pytest

from run_specialist.providers.anthropic import AnthropicProvider
from run_specialist.providers.anthropic import make_client as messages_client
from run_specialist.providers.openai_chat import ChatProvider, make_client
from run_specialist.providers.unread_answers import UNREAD
from tests.loop_jobs import job, outcome_of
from tests.wire.chat.replies import answers, calls, says
from tests.wire.json_mode import JSON_MODE, responds
from tests.wire.simulator.replies import says as says_blocks

pytestmark = pytest.mark.anyio


@pytest.fixture
def warned(chat_api):
    """Return a function that plays one run after the other on one provider, and tells which of them were warned."""

    async def run(*scripts, limit=9, **settings):
        api = chat_api([reply for script in scripts for reply in script])
        async with make_client(base_url=api.base_url, api_key="test", max_retries=0) as client:
            provider = ChatProvider("some-model", client)
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


@pytest.mark.parametrize(("limit", "tools"), [(0, None), (9, ())])
async def test_g8_an_answer_that_could_not_be_preceded_by_a_call_does_not_count(warned, limit, tools):
    """At a limit of 0, or without tools, there is nothing to call."""
    settings = {} if tools is None else {"tools": tools}
    assert await warned([answers("x")], [answers("y")], limit=limit, **settings) == [False, False]


async def test_g8_calls_in_json_are_not_suggested_twice(warned):
    """A run whose calls are JSON already does not count."""
    assert await warned([responds("x")], [responds("y")], **JSON_MODE) == [False, False]


async def test_g8_messages_api_suggests_json_too(messages_api):
    """The same on the Messages API."""
    api = messages_api([says_blocks("One."), says_blocks("Two.")])
    async with messages_client(base_url=api.base_url, api_key="test", max_retries=0) as client:
        provider = AnthropicProvider("haiku", client)
        outcomes = [await outcome_of(job(provider)) for _ in range(2)]
    assert [UNREAD in outcome.warnings for outcome in outcomes] == [False, True]

"""Replies that never end are bounded: by the requested length, and by the amount of white space."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from run_specialist.providers.anthropic import AnthropicProvider
from run_specialist.providers.anthropic import make_client as messages_client
from run_specialist.providers.openai_chat import ChatProvider
from run_specialist.providers.openai_chat import make_client as chat_client
from run_specialist.record.outcome import Outcome
from tests.loop_jobs import job, outcome_of
from tests.wire.chat.replies import answers as chat_answers
from tests.wire.endless import EndlessChat, EndlessMessages, half_of
from tests.wire.simulator.replies import answers

pytestmark = pytest.mark.anyio

Streamed = Callable[..., Awaitable[tuple[Outcome, Any]]]


@pytest.fixture(params=["chat", "messages"])
def api_name(request) -> str:
    """Both APIs."""
    return request.param


@pytest.fixture
def streamed(api_name, chat_api, messages_api) -> Streamed:
    """Return a function that streams a script to a job; `model` chooses a model of the Messages API."""

    async def run(script, limit=9, *, model="haiku", **settings):
        if api_name == "chat":
            api = chat_api(script)
            async with chat_client(base_url=api.base_url, api_key="test", max_retries=0) as client:
                provider = ChatProvider("some-model", client)
                return await outcome_of(job(provider, limit, **settings), None, lambda delta: None), api
        api = messages_api(script)
        async with messages_client(base_url=api.base_url, api_key="test", max_retries=0) as client:
            provider = AnthropicProvider(model, client)
            return await outcome_of(job(provider, limit, **settings), None, lambda delta: None), api

    return run


@pytest.fixture
def endless(api_name):
    """Return the kind of stream without end that belongs to the API."""
    return EndlessChat if api_name == "chat" else EndlessMessages


@pytest.fixture
def answered(api_name):
    """Return a reply that calls `respond`."""
    return (chat_answers if api_name == "chat" else answers)("at last")


def is_warned(outcome: Outcome) -> bool:
    """Return whether the outcome says that a reply was ended because of white space."""
    return any("nothing but white space" in warning for warning in outcome.warnings)


async def test_g7_text_before_endless_white_space_is_the_reply(streamed, endless):
    """A text followed by endless white space is the answer, with a warning, and the connection is closed."""
    stream = endless(("The ", "answer."))
    outcome, _ = await streamed([stream])
    assert (outcome.status, outcome.answer) == ("answered", "The answer.")
    assert is_warned(outcome)
    assert stream.was_cut_off


async def test_g7_complete_arguments_before_endless_white_space_are_run(streamed, endless, answered):
    """A call whose arguments are complete is run, although the server never ends its reply."""
    stream = endless(('{"query":', '"a"}'), tool="look")
    outcome, _ = await streamed([stream, answered])
    assert (outcome.answer, outcome.tool_calls.used, outcome.tool_calls.failed) == ("at last", 1, 0)
    assert stream.was_cut_off


async def test_g7_a_call_that_breaks_off_is_requested_again(streamed, endless, answered):
    """A call whose arguments break off in white space is not run; the request is repeated once."""
    stream = endless((half_of({"query": "a"}),), tool="look")
    outcome, api = await streamed([stream, answered])
    assert (outcome.answer, outcome.tool_calls.used) == ("at last", 0)
    assert is_warned(outcome)
    assert api.requests[0].messages == api.requests[1].messages


async def test_g7_white_space_alone_is_no_answer(streamed, endless, answered):
    """White space alone is an empty answer, which is requested once more."""
    outcome, _ = await streamed([endless(), answered])
    assert (outcome.status, outcome.answer) == ("answered", "at last")


async def test_g7_a_landing_of_endless_white_space_ends(streamed, endless):
    """Every request of a landing that returns endless white space is ended, and the run has an outcome."""
    # Line breaks in JSON are escaped, and each escape is split between two pieces.
    streams = [endless(('{"answer": "so\\',), tool="respond", blank="n\\") for _ in range(2)]
    outcome, _ = await streamed(streams, 0)
    assert (outcome.status, outcome.answer) == ("partial", "so\n[truncated]")
    assert all(stream.was_cut_off for stream in streams)


async def test_g7_white_space_within_a_reply_is_no_end(streamed, endless):
    """White space that is followed by words does not count: the stream continues until there is too much in a row."""
    stream = endless(("The", " " * 1_999, "an", "\n" * 1_999, "swer."))
    outcome, _ = await streamed([stream])
    assert outcome.answer == "The" + " " * 1_999 + "an" + "\n" * 1_999 + "swer."

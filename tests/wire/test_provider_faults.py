"""Server faults that the Anthropic provider handles: broken streams, long waits, invalid usage figures, bad keys."""

from dataclasses import replace

import pytest

from run_specialist.providers.anthropic import AnthropicProvider, make_client
from run_specialist.providers.transport import MOST_TOKENS, count
from tests.loop_jobs import job, outcome_of
from tests.wire.fault_replies import GOOD
from tests.wire.simulator import faults
from tests.wire.simulator.replies import cut_call, says

pytestmark = pytest.mark.anyio


async def test_content_types_are_compared_without_regard_to_case(messages_api):
    """Content types are case-insensitive: `Application/JSON` is JSON."""
    api = messages_api([faults.MislabelledReply(GOOD, kind="Application/JSON; charset=utf-8")])
    async with make_client(base_url=api.base_url, api_key="test", max_retries=0) as client:
        outcome = await outcome_of(job(AnthropicProvider("haiku", client), 9))
    assert outcome.answer == "fine"


async def test_text_that_streamed_before_a_break_is_salvaged(messages_api):
    """Text streamed before the stream breaks is salvaged."""
    reply = says("The first half of a long answer that never came to its end.")
    api = messages_api([faults.BrokenOff(reply, after_events=5)])
    async with make_client(base_url=api.base_url, api_key="test", max_retries=0) as client:
        shown = []
        outcome = await outcome_of(job(AnthropicProvider("haiku", client), 9), watch=lambda d: shown.append(d.text))
    assert outcome.status == "failed"
    assert "".join(shown)
    assert "".join(shown) in outcome.answer


async def test_a_key_that_cannot_be_sent_is_not_shown(messages_api):
    """The error for a key with a line break says where to look and shows no part of the key."""
    api = messages_api([])
    async with make_client(base_url=api.base_url, api_key="sk-my\nsecret-key", max_retries=0) as client:
        outcome = await outcome_of(job(AnthropicProvider("haiku", client), 9))
    assert outcome.error == "the request cannot be sent; check ANTHROPIC_API_KEY for invalid characters"
    assert "secret" not in repr(outcome)


async def test_x_3_a_call_with_incomplete_arguments_is_not_run(messages_api):
    """A call with incomplete streamed arguments is not run.

    Only a reply that was cut may be read in part.
    """
    half = replace(cut_call("look", '{"query": "half of', {}), stop_reason="tool_use")
    api = messages_api([half, GOOD])
    async with make_client(base_url=api.base_url, api_key="test", max_retries=0) as client:
        outcome = await outcome_of(job(AnthropicProvider("haiku", client), 9), watch=lambda delta: None)
    assert (outcome.answer, outcome.tool_calls.failed) == ("fine", 1)
    assert "the arguments are no JSON object" in next(iter(api.requests[1].results.values()))


def test_usage_figures_above_the_maximum_count_as_0():
    """Usage figures above the client's own limit of a million times a million tokens count as 0."""
    assert count({"a": MOST_TOKENS}, "a") == MOST_TOKENS == 10**12
    assert [count(values, "a") for values in ({"a": MOST_TOKENS + 1}, {"a": True}, {"a": False}, {}, None)] == [0] * 5

"""Soft landing over the wire: the real SDK against a server that enforces the API's rules."""

import json
from collections.abc import Callable

import pytest

from run_specialist.errors import ProviderError
from run_specialist.providers.anthropic import AnthropicProvider, StreamedMessage, make_client
from run_specialist.providers.base import Delta
from tests.loop_jobs import job, outcome_of
from tests.wire.simulator import MessagesSimulator, policies

pytestmark = pytest.mark.anyio
FORCED = {"type": "tool", "name": "respond"}


@pytest.fixture(params=["json", "stream"])
def watch(request) -> Callable[[Delta], None] | None:
    """Run once with complete replies and once with streamed ones."""
    return None if request.param == "json" else lambda delta: None


def provider_for(api: MessagesSimulator, model: str = "haiku") -> AnthropicProvider:
    """Return a provider that connects the real SDK to the simulator."""
    return AnthropicProvider(model, make_client(base_url=api.base_url, api_key="test", max_retries=0))


def without_markers(value: object) -> object:
    """Return a request body without its cache markers."""
    if isinstance(value, dict):
        return {key: without_markers(item) for key, item in value.items() if key != "cache_control"}
    return [without_markers(item) for item in value] if isinstance(value, list) else value


async def test_s0_1_s0_2_s0_3_s0_4_thirty_calls_are_silent_counted_down_and_forced(messages_api, watch):
    """A model that never stops gets 30 calls: 14 raw results, 16 with a countdown, then a forced `respond`."""
    api = messages_api(policies.always_tool("look"))
    provider = provider_for(api)
    outcome = await outcome_of(job(provider, 30), watch=watch)
    await provider.aclose()

    assert (outcome.status, outcome.answer) == ("landed", "what was found")
    assert (outcome.tool_calls.used, outcome.landing.how) == (30, "force")
    assert len(api.requests) == 31
    told = [next(iter(request.results.values())) for request in api.requests[1:]]
    raw = [f"note on 'question {call}', part 0" for call in range(30)]
    assert told[:14] == raw[:14]
    words = [f"{left} tool calls remaining" for left in range(15, 1, -1)]
    words += ["1 tool call remaining", "0 tool calls remaining"]
    assert told[14:] == [f"{text}\n{line}" for text, line in zip(raw[14:], words, strict=True)]
    assert [request.tool_choice for request in api.requests] == [None] * 30 + [FORCED]


async def test_s0_5_system_tools_and_history_are_byte_identical(messages_api, watch):
    """Every request begins with the bytes of the previous one; only cache markers and the choice differ."""
    api = messages_api(policies.always_tool("look", calls_per_turn=3))
    provider = provider_for(api)
    await outcome_of(job(provider, 12), watch=watch)
    await provider.aclose()

    front = api.requests[0].raw.split(b',"max_tokens"')[0]
    assert b'"system":' in front
    assert b'"tools":' in front
    assert all(request.raw.startswith(front) for request in api.requests)
    for before, after in zip(api.requests, api.requests[1:], strict=False):
        for part in ("system", "tools"):
            assert json.dumps(before.body[part]) == json.dumps(after.body[part])
        kept = [json.dumps(without_markers(message)) for message in before.messages]
        assert [json.dumps(without_markers(message)) for message in after.messages[: len(kept)]] == kept
    assert not [request.oddities for request in api.requests if request.oddities]


async def test_s0_10_a_server_that_ignores_every_choice_ends_in_a_salvage(messages_api, watch):
    """A server that ignores force, schema and none, as small local ones do: an outcome after three landing requests."""
    api = messages_api(policies.ignores_everything("look"))
    provider = provider_for(api)
    outcome = await outcome_of(job(provider, 2), watch=watch)
    await provider.aclose()

    assert [request.tool_choice for request in api.requests[2:]] == [FORCED, {"type": "none"}, {"type": "none"}]
    assert [request.schema is None for request in api.requests[2:]] == [True, False, True]
    assert (outcome.status, outcome.tool_calls.used, outcome.landing.requests) == ("partial", 2, 3)
    assert "note on 'question 1'" in outcome.answer


@pytest.mark.parametrize("missing", range(1, 6))
def test_an_incomplete_stream_is_an_error(missing):
    """A stream that lacks any number of its last events is an error, never a message."""
    events = [
        {"type": "message_start", "message": {"usage": {}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "half"}},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}},
        {"type": "message_stop"},
    ]
    message = StreamedMessage(lambda delta: None)
    for event in events[:-missing]:
        message.add(event)
    with pytest.raises(ProviderError, match="was closed in the middle of a reply"):
        message.result()

"""How much room a landing request asks for."""

import pytest

from run_specialist.providers.errors import OPENAI_URL
from run_specialist.providers.openai_chat import ChatProvider, make_client
from tests.wire.chat.replies import answers, calls, says, tool_call
from tests.wire.connected import MESSAGES
from tests.wire.resumed_requests import Endpoint
from tests.wire.simulator.replies import calls as tool_uses
from tests.wire.simulator.replies import says as says_blocks
from tests.wire.simulator.replies import thinking, tool_use
from tests.wire.specialists import DONE

LOOK = calls("look", {"query": "a"})


async def test_g7_a_landing_asks_for_little_room_once_more_for_twice_as_much(ask_chat):
    """A landing asks for 4,096 tokens; if its reply is cut, for 8,192, and never for 16,000."""
    half = says(None, tool_call("respond", '{"answer": "so fa'), finish_reason="length")
    outcome, api = await ask_chat([LOOK, half, half], 1)
    assert [sent.body["max_completion_tokens"] for sent in api.requests] == [16_000, 4_096, 8_192]
    assert (outcome.status, outcome.answer) == ("partial", "so fa\n[truncated]")


@pytest.mark.parametrize(
    ("text", "extra"),
    [
        (None, {"reasoning_content": "hm"}),
        (None, {"reasoning_details": [{"type": "reasoning.text"}]}),
        ("<think>hm</think>I look.", {}),
    ],
)
async def test_g7_a_model_that_was_seen_to_reason_keeps_its_room(ask_chat, text, extra):
    """A model that has reasoned in this run, also within its text, may need its room for that."""
    _, api = await ask_chat([says(text, tool_call("look", {"query": "a"}), **extra), answers("yes")], 1)
    assert [sent.body["max_completion_tokens"] for sent in api.requests] == [16_000, 16_000]


@pytest.mark.parametrize(("model", "room"), [("haiku", 4_096), ("sonnet", 16_000), ("claude-opus-5", 4_096)])
async def test_g7_claude_models_that_always_think_keep_their_room(ask_once, model, room):
    """Models that cannot be forced always think; the others are bounded in a landing."""
    told = await ask_once([tool_uses("look", {"query": "a"}), DONE], "tool_calls_limit: 1", model=model)
    assert [request.body["max_tokens"] for request in told.requests] == [16_000, room]


async def test_g7_thinking_that_was_seen_lifts_the_bound(ask_once):
    """A model that has thought in this run keeps its room."""
    first = says_blocks(thinking("hm"), tool_use("look", {"query": "a"}))
    told = await ask_once([first, DONE], "tool_calls_limit: 1", model="claude-opus-5")
    assert [request.body["max_tokens"] for request in told.requests] == [16_000, 16_000]


async def test_g7_an_effort_lifts_the_bound(ask_once):
    """An effort is a setting of thinking."""
    told = await ask_once([tool_uses("look", {"query": "a"}), DONE], "tool_calls_limit: 1", "effort: low")
    assert [request.body["max_tokens"] for request in told.requests] == [16_000, 16_000]


@pytest.mark.parametrize(("url", "thinks"), [(OPENAI_URL, True), (f"{OPENAI_URL}/", True), ("http://[::1]/v1", False)])
async def test_g7_models_of_the_vendor_of_chat_completions_may_think(url, thinks):
    """A model at the vendor's own address may think, which no parameter tells; one at another address does not."""
    async with make_client(base_url=url, api_key="test") as client:
        assert ChatProvider("some-model", client).capabilities.thinks is thinks


async def test_g7_thinking_before_a_resumption_lifts_the_bound_too(messages_api, tmp_path):
    """A resumed run knows from its transcript that the model thinks."""
    first = says_blocks(thinking("hm"), tool_use("look", {"query": "a"}))
    api = messages_api([first, DONE, DONE])
    one = Endpoint(MESSAGES, api, tmp_path, stream=False, model="claude-opus-5")
    await one.ask()
    _, outcome = await one.resume("And?", tool_calls_limit=1)
    assert outcome.status == "landed"
    assert [sent.body["max_tokens"] for sent in one.requests] == [16_000] * 3

"""Answers that rest on what was read, on the wire: both APIs, with their real SDKs."""

import json

import pytest

from tests.loop_jobs import LOOK
from tests.wire.chat import replies as chat
from tests.wire.simulator.replies import answers, says, text, thinking

pytestmark = pytest.mark.anyio
CALL = '{"name": "look", "arguments": {"query": "a"}}'


async def test_g_3_on_the_messages_api_a_leaked_call_goes_back_as_a_call(ask):
    """The call in the text goes back as a tool call with its result, after its unchanged thinking."""
    done = await ask([says(thinking("hm"), text(f"```json\n{CALL}\n```")), answers("yes")], "tools: []", tools=[LOOK])
    assert (done.outcome.answer, done.outcome.tool_calls.used) == ("yes", 1)
    assistant = done.requests[1].messages[1]["content"]
    assert [block["type"] for block in assistant] == ["thinking", "tool_use"]
    assert done.requests[1].results == {assistant[1]["id"]: "note on 'a', part 0"}


async def test_g_3_on_chat_completions_a_leaked_call_goes_back_as_a_call(ask_chat):
    """The call in the text goes back in `tool_calls`, and the answer in the text is taken."""
    answer = json.dumps({"name": "respond", "arguments": {"answer": "yes"}})
    outcome, api = await ask_chat([chat.says(f"<tool_call>\n{CALL}\n</tool_call>"), chat.says(answer)])
    assert (outcome.answer, outcome.tool_calls.used) == ("yes", 1)
    (call,) = api.requests[1].messages[2]["tool_calls"]
    assert call["function"] == {"name": "look", "arguments": '{"query":"a"}'}
    assert api.requests[1].messages[3]["tool_call_id"] == call["id"]

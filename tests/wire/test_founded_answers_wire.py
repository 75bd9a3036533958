"""Answers that rest on what was read, on the wire: both APIs, with their real SDKs."""

import json

import pytest

from run_specialist import prompts
from tests.loop_jobs import LOOK
from tests.wire.chat import replies as chat
from tests.wire.simulator.replies import answers, calls, respond, says, text, thinking
from tests.wire.specialists import FORCED

pytestmark = pytest.mark.anyio
LOOK_A = calls("look", {"query": "a"})
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


INVENTED = {"source": "x:1", "quote": "owls read books"}
READ = {"source": "a", "quote": "note on 'a'"}


async def test_g_4_on_the_messages_api_the_calls_run_and_respond_is_asked_for_again(ask):
    """All results come in one message in call order, `respond` among them as an error."""
    both = says(*LOOK_A.content, respond("early"), *calls("look", {"query": "b"}).content)
    done = await ask([both, answers("late", evidence=[READ])], "tools: []")
    assert (done.outcome.answer, done.outcome.tool_calls.used) == ("late", 2)
    first, told, last = done.results[0]
    assert (first, last) == ("note on 'a', part 0", "note on 'b', part 0")
    assert told == prompts.TOO_EARLY


async def test_g_4_on_chat_completions_the_calls_run_and_respond_is_asked_for_again(ask_chat):
    """Each call has its tool message, in call order."""
    early = chat.tool_call("respond", {"answer": "early"})
    both = chat.says(None, early, chat.tool_call("look", {"query": "a"}))
    outcome, api = await ask_chat([both, chat.answers("late", evidence=[READ])])
    assert (outcome.answer, outcome.tool_calls.used) == ("late", 1)
    assert api.requests[1].results == [prompts.TOO_EARLY, "note on 'a', part 0"]


async def test_g_5_on_the_messages_api_an_answer_without_a_quote_goes_back_also_at_the_landing(ask):
    """The return stays on the forced rung, costs one request, and sends tools and system unchanged."""
    script = [LOOK_A, answers("no", evidence=[INVENTED]), answers("yes", evidence=[READ])]
    done = await ask(script, "tools: []", "evidence: require", "tool_calls_limit: 1")
    assert (done.outcome.status, done.outcome.answer, done.outcome.landing.requests) == ("landed", "yes", 2)
    assert done.choices == [None, FORCED, FORCED]
    assert '"owls read books"' in done.results[1][0]
    assert len({str(request.body["tools"]) + str(request.body["system"]) for request in done.requests}) == 1


async def test_g_5_on_chat_completions_a_text_goes_back_as_a_message(ask_chat):
    """A text goes back in the user role, and the answer may come as JSON."""
    text_answer = json.dumps({"answer": "yes", "evidence": [READ]})
    script = [chat.calls("look", {"query": "a"}), chat.says("It is."), chat.says(text_answer)]
    outcome, api = await ask_chat(script, evidence="require")
    assert (outcome.status, outcome.answer) == ("answered", "yes")
    assert api.requests[2].messages[-1] == {"role": "user", "content": prompts.without_quote([]).to_text}

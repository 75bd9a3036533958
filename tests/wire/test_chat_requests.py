"""Requests to chat completions servers, byte by byte."""

import json
from itertools import pairwise

import pytest

from run_specialist.providers import openai_chat
from run_specialist.providers.base import Choice, Opening, Request
from run_specialist.providers.openai_chat import ChatProvider, make_client
from run_specialist.providers.openai_messages import encoded
from run_specialist.record.messages import Message, ToolResult
from run_specialist.tools.base import Toolset
from tests.loop_jobs import LOOK, job, outcome_of
from tests.wire.chat import policies
from tests.wire.chat.replies import answers, calls, says, tool_call
from tests.wire.chat_messages import FORCED

pytestmark = pytest.mark.anyio


def roles(sent):
    """Return the roles of a request's messages."""
    return [message["role"] for message in sent.messages]


async def test_s0_1_s0_3_s0_4_a_run_of_30_calls_counts_down_and_is_forced(ask_chat):
    """In 30 calls, the second half shows a countdown and `respond` is forced at the limit, not before."""
    outcome, api = await ask_chat(policies.always_tool("look"), 30, landing="force")
    assert (outcome.status, outcome.answer, outcome.landing.how) == ("landed", "what was found", "force")
    assert (outcome.tool_calls.used, outcome.model) == (30, "openai:some-model")
    assert [sent.tool_choice for sent in api.requests] == ["auto"] * 30 + [FORCED]
    told = api.requests[-1].results
    raw = [f"note on 'question {call}', part 0" for call in range(30)]
    assert told[:14] == raw[:14]
    assert told[14] == f"{raw[14]}\n15 tool calls remaining"
    assert told[28:] == [f"{raw[28]}\n1 tool call remaining", f"{raw[29]}\n0 tool calls remaining"]


async def test_s0_5_each_history_begins_with_the_bytes_of_the_previous_one(ask_chat):
    """Tools and system are the same in every request, and each history begins with the bytes of the previous one."""
    _, api = await ask_chat(policies.always_tool("look", calls_per_turn=3), 12)
    fronts = {sent.raw.split(b',"max_completion_tokens"')[0] for sent in api.requests}
    assert len(fronts) == 1
    assert b'"tools":[{"type":"function","function":{"name":"look"' in fronts.pop()
    for before, after in pairwise(api.requests):
        said, more = (sent.raw.split(b'"messages":', 1)[1] for sent in (before, after))
        assert more.startswith(said.removesuffix(b"]}"))
        assert len(more) > len(said)


async def test_the_first_request_has_only_the_expected_keys(ask_chat):
    """The first request has the id without prefix, the system message and the question; streaming requests usage."""
    _, api = await ask_chat([answers("yes")])
    (sent,) = api.requests
    streamed = {"stream": True, "stream_options": {"include_usage": True}} if sent.stream else {}
    body = {key: value for key, value in sent.body.items() if key not in {"messages", "tools", *streamed}}
    assert body == {"model": "some-model", "max_completion_tokens": 16_000, "tool_choice": "auto"}
    assert {key: sent.body[key] for key in streamed} == streamed
    system, question = sent.messages
    assert system["role"] == "system"
    assert system["content"].startswith("You look things up.")
    assert question == {"role": "user", "content": "What is known?"}
    look = sent.body["tools"][0]["function"]
    assert (look["name"], look["description"]) == ("look", "Look something up.")
    assert set(look["parameters"]["properties"]) == {"query", "part"}


@pytest.mark.parametrize(("effort", "sent"), [("low", "low"), ("xhigh", "xhigh"), ("max", "max"), (None, None)])
async def test_effort_is_sent_as_reasoning_effort(chat_api, effort, sent):
    """The effort is sent as `reasoning_effort` in every request; without one, the key is absent."""
    api = chat_api([calls("look", {"query": "a"}), answers("yes")])
    async with make_client(base_url=api.base_url, api_key="test") as client:
        conversation = ChatProvider("some-model", client).open(Opening("Be brief.", Toolset([LOOK]), effort))
        said = [Message.user("What?")]
        for _ in range(2):
            await conversation.ask(Request(said, Choice.AUTO, 100))
    assert [request.body.get("reasoning_effort") for request in api.requests] == [sent, sent]


async def test_without_tools_no_tool_choice_is_sent(chat_api):
    """Without tools, as for a summary, no `tool_choice` is sent either, because the API refuses it."""
    api = chat_api([says("Short."), says("Shorter.")])
    async with make_client(base_url=api.base_url, api_key="test") as client:
        conversation = ChatProvider("some-model", client).open(Opening("Sum up.", Toolset([])))
        for choice in (Choice.AUTO, Choice.NONE):
            await conversation.ask(Request([Message.user("Much.")], choice, 100))
    assert all(not {"tools", "tool_choice"} & set(sent.body) for sent in api.requests)


async def test_s2_2_each_result_is_its_own_message_in_call_order(ask_chat):
    """Three calls with a limit of two give three tool messages directly after the calls; the last is skipped."""
    script = [calls("look", {"query": "a"}, {"query": "b"}, {"query": "c"}), answers("yes")]
    _, api = await ask_chat(script, 2)
    sent = api.requests[1]
    assert roles(sent) == ["system", "user", "assistant", "tool", "tool", "tool"]
    wanted = [call["id"] for call in api.requests[0].message["tool_calls"]]
    assert [message["tool_call_id"] for message in sent.messages[3:]] == wanted
    assert [text.split("\n")[0] for text in sent.results[:2]] == ["note on 'a', part 0", "note on 'b', part 0"]
    assert sent.results[2].startswith("Not run: limit reached")
    assert all(set(message) == {"role", "tool_call_id", "content"} for message in sent.messages[3:])


async def test_s0_10_the_landing_instruction_is_a_user_message_after_the_results(ask_chat):
    """The landing instruction is a user message, never a system message; the results end with the countdown."""
    outcome, api = await ask_chat(policies.always_tool("look"), 2, landing="order")
    sent = api.requests[-1]
    assert (outcome.landing.how, sent.tool_choice) == ("order", "auto")
    assert roles(sent)[-2:] == ["tool", "user"]
    assert sent.results[-1].endswith("\n0 tool calls remaining")
    assert sent.messages[-1]["content"].startswith("0 tool calls remain and")


async def test_x_1_with_a_limit_of_0_the_instruction_ends_the_question(ask_chat):
    """With a limit of 0 calls, the landing instruction is the last line of the user's message."""
    _, api = await ask_chat([answers("yes")], 0, landing="order")
    assert roles(api.requests[0]) == ["system", "user"]
    question, order = api.requests[0].messages[1]["content"].split("\n")
    assert question == "What is known?"
    assert "`respond`" in order


async def test_an_ignored_instruction_stays_in_the_history(ask_chat):
    """An ignored instruction stays in the history; the next requests have the same tools."""
    script = [
        calls("look", {"query": "a"}),
        calls("look", {"query": "b"}),
        calls("look", {"query": "c"}),
        says("In words."),
    ]
    outcome, api = await ask_chat(script, 1, landing="order")
    assert (outcome.answer, outcome.landing.how) == ("In words.", "none")
    assert roles(api.requests[-2]) == ["system", "user", "assistant", "tool", "user", "assistant", "tool"]
    assert [sent.tool_choice for sent in api.requests] == ["auto", "auto", None, "none"]
    assert api.requests[-1].body["tools"] == api.requests[0].body["tools"]


async def test_each_message_is_serialised_once(ask_chat, monkeypatch):
    """Each message is serialised once per run; later requests reuse its bytes."""
    made = []
    monkeypatch.setattr(openai_chat, "encoded", lambda message: made.append(message) or encoded(message))
    _, api = await ask_chat(policies.always_tool("look"), 20, landing="none")
    assert len(api.requests[-1].messages) == 42
    assert len(made) == 41


async def test_s0_7_two_runs_share_a_provider_and_nothing_else(chat_api):
    """The second of two consecutive runs sends nothing of the first, and its ids start again."""
    api = chat_api(policies.always_tool("look"))
    async with make_client(base_url=api.base_url, api_key="test", max_retries=0) as client:
        provider = ChatProvider("some-model", client)
        outcomes = [await outcome_of(job(provider, limit)) for limit in (2, 3)]
    assert [outcome.tool_calls.used for outcome in outcomes] == [2, 3]
    assert [len(sent.messages) for sent in api.requests] == [2, 4, 6, 2, 4, 6, 8]


async def test_results_precede_the_text_of_a_message(chat_api):
    """As in a resumed run, the results come first, directly after their calls, and then the user's text."""
    api = chat_api([calls("look", {"query": "a"}), says("Yes.")])
    async with make_client(base_url=api.base_url, api_key="test", max_retries=0) as client:
        conversation = ChatProvider("some-model", client).open(Opening("Be brief.", Toolset([LOOK])))
        said = [Message.user("What?")]
        reply = await conversation.ask(Request(said, Choice.AUTO, 100))
        result = ToolResult(reply.calls[0].id, "mice").block()
        more = Message("user", (result, {"type": "text", "text": "Go on."}), landing_instruction="At once.")
        await conversation.ask(Request([*said, Message("assistant", reply.content), more], Choice.AUTO, 100))
    assert [message.get("content") for message in api.requests[1].messages[2:]] == [None, "mice", "Go on.\nAt once."]


async def test_a_transcript_of_the_messages_api_is_converted(chat_api):
    """A transcript from the Messages API is converted: calls and texts become messages, thinking is omitted."""
    api = chat_api([says("Yes.")])
    blocks = (
        {"type": "thinking", "thinking": "hm", "signature": "x"},
        {"type": "text", "text": "I look."},
        {"type": "text", "text": "Now."},
        {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"query": "ü"}},
    )
    said = [Message.user("What?"), Message("assistant", blocks), Message.results([ToolResult("toolu_1", "mice")])]
    async with make_client(base_url=api.base_url, api_key="test", max_retries=0) as client:
        await ChatProvider("some-model", client).open(Opening("", Toolset([LOOK]))).ask(Request(said, Choice.AUTO, 100))
    sent = api.requests[0].messages[1]
    assert sent == {
        "role": "assistant",
        "content": "I look.\nNow.",
        "tool_calls": [tool_call("look", '{"query":"ü"}', "toolu_1")],
    }
    assert "hm" not in json.dumps(sent)


@pytest.mark.parametrize("blocks", [(), ({"type": "thinking", "thinking": "hm", "signature": "x"},)])
def test_an_empty_assistant_message_has_an_empty_string(blocks):
    """An assistant message has null content only if it has calls; otherwise the content is an empty string."""
    assert json.loads(encoded(Message("assistant", blocks))) == {"role": "assistant", "content": ""}

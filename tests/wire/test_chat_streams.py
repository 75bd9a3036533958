"""Streamed replies of chat completions servers, assembled from their fragments."""

import pytest

from run_specialist.providers.base import Delta
from run_specialist.providers.openai_chat import ChatProvider, make_client
from run_specialist.providers.openai_messages import StreamedCompletion
from tests.loop_jobs import job, outcome_of
from tests.wire.chat.faults import Stream, json_value
from tests.wire.chat.replies import ChatReply, answers, says, tool_call

pytestmark = pytest.mark.anyio


def fragments(*pieces, **fields):
    """Return a reply that is streamed as these fragments of tool calls."""
    return ChatReply(
        {"role": "assistant", "content": ""}, "tool_calls", None, [{"tool_calls": [p]} for p in pieces], **fields
    )


HALF, REST = '{"query": ', '"a"}'
STREAMED = {
    "name in the first fragment only": [
        {"index": 0, "id": "1", "function": {"name": "look", "arguments": ""}},
        {"index": 0, "function": {"arguments": HALF}},
        {"index": 0, "function": {"arguments": REST}},
    ],
    "everything at once": [{"index": 0, "id": "1", "function": {"name": "look", "arguments": HALF + REST}}],
    "no index": [
        {"id": "1", "function": {"name": "look", "arguments": HALF}},
        {"function": {"arguments": REST}},
    ],
    "id and name in every fragment": [
        {"index": 0, "id": "1", "function": {"name": "look", "arguments": HALF}},
        {"index": 0, "id": "1", "function": {"name": "look", "arguments": REST}},
    ],
    "id and name are null in the others": [
        {"index": 0, "id": "1", "function": {"name": "look", "arguments": None}},
        {"index": 0, "id": None, "type": None, "function": {"name": None, "arguments": HALF + REST}},
    ],
    "another id in every fragment": [
        {"index": 0, "id": "1", "function": {"name": "look", "arguments": HALF}},
        {"index": 0, "id": "2", "function": {"arguments": REST}},
    ],
    "arguments are an object": [{"index": 0, "id": "1", "function": {"name": "look", "arguments": {"query": "a"}}}],
    "the id comes late": [
        {"index": 0, "function": {"name": "look"}},
        {"index": 0, "id": "1", "function": {"arguments": HALF + REST}},
    ],
}
SEVERAL = {
    "by index, interleaved": [
        {"index": 0, "id": "1", "function": {"name": "look", "arguments": HALF}},
        {"index": 1, "id": "2", "function": {"name": "look", "arguments": HALF}},
        {"index": 1, "function": {"arguments": '"b"}'}},
        {"index": 0, "function": {"arguments": REST}},
    ],
    "no index, no id": [
        {"function": {"name": "look", "arguments": HALF + REST}},
        {"function": {"name": "look", "arguments": HALF + '"b"}'}},
    ],
    "the index is always 0": [
        {"index": 0, "id": "1", "function": {"name": "look", "arguments": HALF + REST}},
        {"index": 0, "id": "2", "function": {"name": "look", "arguments": HALF}},
        {"index": 0, "function": {"arguments": '"b"}'}},
    ],
}


@pytest.fixture
def stream(chat_api):
    """Return a function that runs a job with streamed replies and returns outcome, simulator and deltas."""

    async def run(script, **settings):
        api, seen = chat_api(script), []
        async with make_client(base_url=api.base_url, api_key="test", max_retries=0) as client:
            provider = ChatProvider("some-model", client)
            return await outcome_of(job(provider, **settings), watch=seen.append), api, seen

    return run


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize("pieces", STREAMED.values(), ids=STREAMED)
async def test_a_call_is_put_together_from_its_fragments(stream, pieces):
    """However a server splits a call, it is run once with its arguments, and the watcher sees the tool's name."""
    outcome, api, seen = await stream([fragments(*pieces), answers("yes")])
    assert (outcome.answer, outcome.tool_calls.used, outcome.tool_calls.failed) == ("yes", 1, 0)
    assert api.requests[1].results == ["note on 'a', part 0"]
    shown = [delta for delta in seen if delta.tool == "look"]
    assert "".join(delta.text for delta in shown).replace(" ", "") == '{"query":"a"}'


@pytest.mark.parametrize("pieces", SEVERAL.values(), ids=SEVERAL)
async def test_parallel_calls_are_separated(stream, pieces):
    """Calls are separated by index or, without a usable index, where a new call begins."""
    outcome, api, _ = await stream([fragments(*pieces), answers("yes")])
    assert (outcome.answer, outcome.tool_calls.used) == ("yes", 2)
    assert api.requests[1].results == ["note on 'a', part 0", "note on 'b', part 0"]


async def test_extra_fields_of_a_streamed_call_are_sent_back(stream):
    """Extra fields of a streamed call are merged key by key, at any level, and sent back."""
    pieces = [
        {"index": 0, "id": "1", "function": {"name": "look", "arguments": "{}"}, "extra_content": {"a": {"b": "x"}}},
        {"index": 0, "extra_content": {"a": {"b": "y", "c": 1}}},
        {"index": 0, "function": {"note": "n"}},
    ]
    _, api, _ = await stream([fragments(*pieces), answers("yes")])
    (call,) = api.requests[1].messages[2]["tool_calls"]
    assert call["extra_content"] == {"a": {"b": "xy", "c": 1}}
    assert call["function"] == {"name": "look", "arguments": "{}", "note": "n"}


async def test_a_legacy_function_call_is_a_call(stream):
    """A streamed legacy `function_call` is sent back as a tool call with a generated id."""
    deltas = [{"function_call": {"name": "look", "arguments": HALF}}, {"function_call": {"arguments": REST}}]
    old = ChatReply({"role": "assistant", "content": ""}, "function_call", None, deltas)
    _, api, _ = await stream([old, answers("yes")])
    assert api.requests[1].messages[2]["tool_calls"] == [tool_call("look", HALF + REST, "call_1")]
    assert api.requests[1].results == ["note on 'a', part 0"]


async def test_text_is_streamed_and_reasoning_is_not(stream):
    """The streamed text deltas add up to the answer; reasoning is not shown."""
    outcome, _, seen = await stream([says("The whole answer.", reasoning_content="hm hm hm")])
    assert [delta.tool for delta in seen] == [None] * len(seen)
    assert len(seen) > 1
    assert "".join(delta.text for delta in seen) == outcome.answer == "The whole answer."


async def test_a_json_reply_to_a_streaming_request_is_read(chat_api):
    """A JSON reply to a streaming request is read."""
    body = {"choices": [{"message": {"role": "assistant", "content": "whole"}, "finish_reason": "stop"}]}
    api = chat_api([json_value(body)])
    async with make_client(base_url=api.base_url, api_key="test", max_retries=0) as client:
        outcome = await outcome_of(job(ChatProvider("some-model", client)), watch=lambda delta: None)
    assert outcome.answer == "whole"


@pytest.mark.parametrize(
    "chunks",
    [
        [{"choices": [{"delta": {"content": "yes"}, "finish_reason": "stop"}]}],
        [{"choices": [{"index": 0, "delta": {"content": "yes"}, "finish_reason": "stop"}]}, "[DONE]"],
        [{"choices": [{"delta": {"content": "yes"}}]}, {"choices": [], "usage": {"prompt_tokens": 1}}, "[DONE]"],
        [
            {"choices": [], "prompt_filter_results": []},
            {"choices": [{"index": 1, "delta": {"content": "no"}, "finish_reason": "stop"}]},
            {"choices": [{"index": 0, "delta": {"content": [{"type": "text", "text": "ye"}, "s"]}}]},
            {"choices": [{"index": 0, "delta": None, "finish_reason": "stop"}]},
            [],
            "[DONE]",
        ],
    ],
    ids=["no end mark", "end mark", "no reason but the usage", "noise"],
)
async def test_a_finish_reason_or_closing_usage_completes_a_stream(stream, chunks):
    """A finish reason or the closing usage completes a stream; unknown chunks are ignored."""
    outcome, _, _ = await stream([Stream(tuple(chunks))])
    assert (outcome.status, outcome.answer) == ("answered", "yes")


async def test_the_content_type_of_a_stream_is_compared_without_regard_to_case(stream):
    """The content type `Text/Event-Stream` is read as a stream."""
    chunk = {"choices": [{"delta": {"content": "yes"}, "finish_reason": "stop"}]}
    outcome, _, _ = await stream([Stream((chunk,), kind="Text/Event-Stream")])
    assert outcome.answer == "yes"


def test_empty_chunks_give_no_delta():
    """Only chunks that add text give a delta."""
    seen = []
    growing = StreamedCompletion(seen.append)
    for content in ("", None, "a", ""):
        growing.add({"choices": [{"delta": {"role": "assistant", "content": content}}]})
    assert seen == [Delta("a")]

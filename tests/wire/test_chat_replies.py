"""Replies of chat completions servers: finish reasons, arguments, usage, reasoning."""

import pytest

from run_specialist.providers.openai_messages import read_reply
from run_specialist.record.messages import Stop, Usage
from tests.wire.chat_messages import CALL

pytestmark = pytest.mark.anyio


def read(message, finish_reason="stop", taken=(), **completion):
    """Return the parsed reply of a completion with one message."""
    choice = {"index": 0, "message": {"role": "assistant", "content": None, **message}, "finish_reason": finish_reason}
    return read_reply({"choices": [choice], **completion}, taken)


@pytest.mark.parametrize(
    ("reason", "message", "stop", "odd"),
    [
        ("stop", {"content": "a"}, Stop.ANSWERED, False),
        ("stop", {"content": "a", "tool_calls": [CALL]}, Stop.WANTS_TOOLS, False),
        ("tool_calls", {"tool_calls": [CALL]}, Stop.WANTS_TOOLS, False),
        ("tool_calls", {"content": "a"}, Stop.ANSWERED, False),
        ("tool_calls", {"content": "a", "tool_calls": []}, Stop.ANSWERED, False),
        ("function_call", {"function_call": {"name": "look", "arguments": "{}"}}, Stop.WANTS_TOOLS, False),
        ("length", {"content": "a"}, Stop.TRUNCATED, False),
        ("length", {"tool_calls": [CALL]}, Stop.TRUNCATED, False),
        ("content_filter", {"content": "a"}, Stop.REFUSED, False),
        ("stop", {"refusal": "I cannot help with that."}, Stop.REFUSED, False),
        ("stop", {"content": "a", "refusal": " "}, Stop.ANSWERED, False),
        ("model_length", {"content": "a"}, Stop.TRUNCATED, False),
        ("eos_token", {"content": "a"}, Stop.ANSWERED, False),
        (None, {"content": "a"}, Stop.ANSWERED, True),
        (None, {"tool_calls": [CALL]}, Stop.WANTS_TOOLS, True),
        ("brand_new", {"content": "a"}, Stop.ANSWERED, True),
        ("brand_new", {"tool_calls": [CALL]}, Stop.ANSWERED, True),
    ],
)
def test_each_finish_reason_has_one_meaning(reason, message, stop, odd):
    """Each finish reason has one meaning; the reply's content takes precedence, and an odd reason is reported."""
    reply = read(message, reason)
    assert (reply.stop, bool(reply.detail)) == (stop, odd)
    assert not odd or (reason or "none given") in reply.detail


@pytest.mark.parametrize(
    ("arguments", "read_as"),
    [
        ('{"query": "a"}', {"query": "a"}),
        ({"query": "a"}, {"query": "a"}),
        ("", {}),
        (" ", {}),
        (None, {}),
        ("[1]", None),
        ('"{}"', None),
        ("null", None),
        ('{"query": "a', None),
        ("[" * 100_000, None),
        (7, None),
    ],
)
def test_arguments_that_are_no_json_object_are_none(arguments, read_as):
    """Arguments that are no JSON object are None and are sent back as `{}`; absent or blank arguments are `{}`."""
    reply = read({"tool_calls": [{"id": "1", "function": {"name": "look", "arguments": arguments}}]})
    assert reply.calls[0].arguments == read_as
    sent_back = reply.content[0]["chat"]["function"]["arguments"]
    assert sent_back == (arguments if isinstance(arguments, str) and read_as else sent_back)
    assert sent_back.startswith("{")
    assert sent_back.endswith("}")


@pytest.mark.parametrize(
    ("content", "texts"),
    [
        ("a", ["a"]),
        ("", []),
        (None, []),
        ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], ["a", "b"]),
        ([{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": "a"}], ["a"]),
        ([1, None, {"type": "text", "text": None}, "a"], ["a"]),
        (7, []),
    ],
)
def test_s1_6_text_is_found_in_any_form_of_content(content, texts):
    """Content may be a string, null, or parts; thinking parts are not text."""
    reply = read({"content": content})
    assert reply.text == "\n".join(texts)
    assert {block["type"] for block in reply.content} <= {"text", "chat_part"}
    assert [part for part in reply.content if part["type"] == "chat_part"] == [
        {"type": "chat_part", "chat": part}
        for part in (content if isinstance(content, list) else [])
        if isinstance(part, dict) and part["type"] != "text"
    ]


@pytest.mark.parametrize(
    ("usage", "counted"),
    [
        (
            {"prompt_tokens": 10, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 4}},
            Usage(6, 4, 0, 5),
        ),
        ({"prompt_tokens": 10, "completion_tokens": 5}, Usage(10, 0, 0, 5)),
        ({"prompt_tokens": 10, "completion_tokens": None, "prompt_tokens_details": None}, Usage(10, 0, 0, 0)),
        ({"prompt_tokens": 1, "prompt_tokens_details": {"cached_tokens": 4}}, Usage(0, 4, 0, 0)),
        ({"prompt_tokens": "10", "completion_tokens": -1}, Usage()),
        (None, Usage()),
        ([], Usage()),
    ],
)
def test_cached_input_is_not_counted_as_plain_input(usage, counted):
    """Cached input tokens are not counted as plain input; absent figures are 0."""
    assert read({"content": "a"}, usage=usage).usage == counted


def test_a_call_without_a_unique_id_gets_a_new_one():
    """A call whose id is None, empty or already used, in this turn or before, gets an id unique in the transcript."""
    wanted = [{**CALL, "id": call_id} for call_id in (None, "", "old", "new", "new", 7)]
    ids = [call.id for call in read({"tool_calls": wanted}, taken={"old", "call_3"}).calls]
    assert ids[3] == "new"
    assert len({*ids, "old", "call_3"}) == len(ids) + 2
    assert [block["chat"]["id"] for block in read({"tool_calls": wanted}, taken={"old", "call_3"}).content] == ids


def test_a_full_context_is_not_helped_by_more_output_tokens():
    """A cut reply reports when more output tokens would not help, because the context is full."""
    assert read({"content": "a"}, "length").more_room_helps
    assert not read({"content": "a"}, "model_length").more_room_helps

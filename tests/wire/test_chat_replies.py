"""What chat completions servers answer, and what the loop makes of it: whole and streamed, through the real SDK."""

from dataclasses import replace

import pytest

from run_specialist.providers.base import Delta
from run_specialist.providers.openai_chat import ChatProvider, make_client
from run_specialist.providers.openai_reply import read_reply
from run_specialist.providers.openai_stream import StreamedCompletion
from run_specialist.record.messages import Stop, Usage
from tests.loop_jobs import job, outcome_of
from tests.wire.chat.faults import Stream, json_value
from tests.wire.chat.replies import ChatReply, answers, calls, says, tool_call

pytestmark = pytest.mark.anyio
LOOK = calls("look", {"query": "a"})
CALL = tool_call("look", {"query": "a"}, "call_x")


def read(message, finish_reason="stop", taken=(), **completion):
    """Read a completion that holds one message."""
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
def test_every_reason_to_finish_has_one_meaning(reason, message, stop, odd):
    """What the reply holds is more certain than what it says of itself; what is odd is told."""
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
def test_arguments_are_a_string_of_json(arguments, read_as):
    """Whatever is no object is None, and goes back as an empty one; nothing at all is an empty one."""
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
def test_s1_6_text_is_found_in_any_shape_of_content(content, texts):
    """A string, null, or parts; thinking among the parts is no text."""
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
def test_usage_is_counted_as_far_as_it_is_told(usage, counted):
    """Cached input is no plain input; what is absent is 0."""
    assert read({"content": "a"}, usage=usage).usage == counted


def test_a_call_without_an_id_of_its_own_gets_a_new_one():
    """None, empty, one of an earlier turn, twice in one turn: each call of a transcript has its own."""
    wanted = [{**CALL, "id": call_id} for call_id in (None, "", "old", "new", "new", 7)]
    ids = [call.id for call in read({"tool_calls": wanted}, taken={"old", "call_3"}).calls]
    assert ids[3] == "new"
    assert len({*ids, "old", "call_3"}) == len(ids) + 2
    assert [block["chat"]["id"] for block in read({"tool_calls": wanted}, taken={"old", "call_3"}).content] == ids


def test_a_full_context_is_no_matter_of_more_room():
    """A cut reply that more room would not help says so."""
    assert read({"content": "a"}, "length").more_room_helps
    assert not read({"content": "a"}, "model_length").more_room_helps


@pytest.mark.parametrize(
    ("content", "answer"),
    [
        ("<think>secret</think>\n\nThe answer.", "The answer."),
        ("\n<think>\nsecret\n</think>The answer.", "The answer."),
        ("The answer says <think>so</think>.", "The answer says <think>so</think>."),
        ("The answer.", "The answer."),
    ],
)
async def test_s1_6_reasoning_that_a_server_left_in_the_text_never_leaks(ask_chat, content, answer):
    """Only at the very beginning: anywhere else it is what the model wants to say."""
    outcome, _ = await ask_chat([says(content)])
    assert (outcome.status, outcome.answer) == ("answered", answer)


async def test_s1_6_reasoning_without_an_end_is_no_answer(ask_chat):
    """It is asked for again, and what the model then says is the answer."""
    outcome, api = await ask_chat([says("<think>and on and on"), says("<think>hm</think>yes")])
    assert (outcome.answer, len(api.requests)) == ("yes", 2)


async def test_s1_6_reasoning_goes_back_as_it_came_and_never_leaks(ask_chat):
    """Both names of it, details, and unknown fields of message, call and function; null and empty ones do not."""
    fields = {
        "reasoning_content": "secret thought",
        "reasoning": "secret thought",
        "reasoning_details": [{"type": "reasoning.text", "text": "secret thought", "signature": "x"}],
    }
    signed = tool_call("look", '{"query":  "ü"}', extra_content={"google": {"thought_signature": "sig"}})
    first = says("I look.", {**signed, "index": 0, "note": None}, annotations=[1], audio={}, more=[], **fields)
    outcome, api = await ask_chat([first, says("The answer.", **fields)])
    assert (outcome.answer, outcome.status) == ("The answer.", "answered")
    assert "secret" not in repr(outcome)
    sent = api.requests[1].messages[2]
    call = {**signed, "id": api.requests[0].message["tool_calls"][0]["id"]}
    assert sent == {"role": "assistant", "content": "I look.", "tool_calls": [call], **fields}


async def test_parts_that_are_no_text_go_back_as_they_came(ask_chat):
    """Content in parts stays in parts; the thought among them is no text."""
    parts = [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": "I look."}]
    outcome, api = await ask_chat([says(parts, CALL), says([*parts[:1], {"type": "text", "text": "Done."}])])
    assert outcome.answer == "Done."
    assert api.requests[1].messages[2]["content"] == parts


async def test_s1_7_broken_arguments_are_answered_and_go_back_as_an_empty_object(ask_chat):
    """The call is not run; the server, which reads the arguments of the history, still takes it."""
    outcome, api = await ask_chat([says(None, tool_call("look", '{"query": "half')), answers("yes")])
    assert (outcome.answer, outcome.tool_calls.failed) == ("yes", 1)
    assert "the arguments are no JSON object" in api.requests[1].results[0]
    assert api.requests[1].messages[2]["tool_calls"][0]["function"]["arguments"] == "{}"


async def test_calls_without_ids_are_answered_by_ids_of_ours(ask_chat):
    """A local server that sends none, or the same one every time: every result still answers its call."""
    nameless = says(None, {**CALL, "id": ""}, tool_call("look", {"query": "b"}, ""))
    same = says(None, tool_call("look", {"query": "c"}, "0"))
    again = says(None, tool_call("look", {"query": "d"}, "0"))
    outcome, api = await ask_chat([nameless, same, again, answers("yes")])
    assert outcome.answer == "yes"
    wanted = [call["id"] for message in api.requests[3].messages for call in message.get("tool_calls", ())]
    answered = [message["tool_call_id"] for message in api.requests[3].messages if message["role"] == "tool"]
    assert wanted == answered
    assert len(set(wanted)) == 4
    assert [text.split(",")[0] for text in api.requests[3].results] == [f"note on '{query}'" for query in "abcd"]


async def test_x_4_respond_beside_other_calls_ends_the_run(ask_chat):
    """With what it gave; the others are not run."""
    both = says("Well.", CALL, tool_call("respond", {"answer": "done"}))
    outcome, api = await ask_chat([both])
    assert (outcome.answer, outcome.tool_calls.used, len(api.requests)) == ("done", 0, 1)


async def test_x_6_a_cut_call_is_not_executed_and_asked_for_with_more_room(ask_chat):
    """Twice the room; the history is the same."""
    cut = says(None, tool_call("look", '{"query": "ha'), finish_reason="length")
    outcome, api = await ask_chat([cut, LOOK, answers("yes")])
    assert (outcome.answer, outcome.tool_calls.used) == ("yes", 1)
    assert [sent.body["max_completion_tokens"] for sent in api.requests] == [16_000, 32_000, 32_000]
    assert api.requests[0].messages == api.requests[1].messages


async def test_x_6_a_call_that_was_cut_twice_goes_back_as_one_that_can_be_read(ask_chat):
    """It is answered without being run; half of its arguments would be refused by a server that reads them."""
    cut = says(None, tool_call("look", '{"query": "ha'), finish_reason="length")
    outcome, api = await ask_chat([cut, cut, answers("yes")])
    assert (outcome.answer, outcome.tool_calls.used, outcome.tool_calls.skipped) == ("yes", 0, 1)
    assert api.requests[2].messages[2]["tool_calls"][0]["function"]["arguments"] == "{}"


async def test_x_6_what_came_of_a_cut_answer_is_kept(ask_chat):
    """Twice cut inside `respond`: the part that arrived is the answer."""
    cut = says(None, tool_call("respond", '{"answer": "so far so g'), finish_reason="length")
    outcome, _ = await ask_chat([cut, cut])
    assert (outcome.status, outcome.answer) == ("partial", "so far so g\n[truncated]")


async def test_x_7_an_empty_answer_is_asked_for_once_more(ask_chat):
    """Reasoning alone is no answer."""
    outcome, _ = await ask_chat([says(None, reasoning_content="hm"), says("", reasoning_content="hm")])
    assert (outcome.status, outcome.exit_code) == ("failed", 4)
    outcome, _ = await ask_chat([says(""), says("At last.")])
    assert outcome.answer == "At last."


async def test_x_8_refusals_and_unknown_reasons_end_honestly(ask_chat):
    """A filter, a refusal in words, and a reason that nobody knows."""
    outcome, _ = await ask_chat([says("half", finish_reason="content_filter")])
    assert (outcome.exit_code, outcome.error) == (4, "the model refused to answer (content_filter)")
    outcome, _ = await ask_chat([says(None, refusal="I cannot\nhelp.")])
    assert (outcome.exit_code, outcome.error) == (4, "the model refused to answer (I cannot help.)")
    outcome, _ = await ask_chat([says("so far", CALL, finish_reason="abort")])
    assert (outcome.answer, outcome.tool_calls.used) == ("so far", 0)
    assert outcome.warnings == ("the model stopped for an unknown reason: abort",)


async def test_usage_is_that_of_all_requests(ask_chat):
    """Streamed, it comes in the last chunk, which has no choice."""
    told = {"prompt_tokens": 100, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 60}}
    outcome, _ = await ask_chat([replace(LOOK, usage=told), replace(says("Yes."), usage=told)])
    assert outcome.usage == Usage(80, 120, 0, 14)


async def test_cost_is_that_of_the_price_list_or_unknown():
    """By the id without its prefix; never a guess."""
    async with make_client(api_key="test") as client:
        known = ChatProvider("gpt-4o", client).cost(Usage(1_000_000, 0, 0, 0))
        unknown = ChatProvider("my-own-model", client).cost(Usage(1_000_000, 0, 0, 0))
    assert known == pytest.approx(2.5)
    assert unknown is None


def fragments(*pieces, **fields):
    """Build a reply that is streamed as these fragments of tool calls."""
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


@pytest.mark.parametrize("pieces", STREAMED.values(), ids=STREAMED)
async def test_a_call_is_put_together_from_its_fragments(stream, pieces):
    """However a server cuts it up, one call with its arguments is run, and the watcher sees its tool by name."""
    outcome, api, seen = await stream([fragments(*pieces), answers("yes")])
    assert (outcome.answer, outcome.tool_calls.used, outcome.tool_calls.failed) == ("yes", 1, 0)
    assert api.requests[1].results == ["note on 'a', part 0"]
    shown = [delta for delta in seen if delta.tool == "look"]
    assert "".join(delta.text for delta in shown).replace(" ", "") == '{"query":"a"}'


@pytest.mark.parametrize("pieces", SEVERAL.values(), ids=SEVERAL)
async def test_several_calls_are_kept_apart(stream, pieces):
    """By index; without a usable one, by what begins a new call."""
    outcome, api, _ = await stream([fragments(*pieces), answers("yes")])
    assert (outcome.answer, outcome.tool_calls.used) == ("yes", 2)
    assert api.requests[1].results == ["note on 'a', part 0", "note on 'b', part 0"]


async def test_fields_of_a_call_that_stream_in_go_back(stream):
    """Objects are joined key by key, wherever they come."""
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
    """The older shape, streamed: it goes back in the newer one, with an id of ours."""
    deltas = [{"function_call": {"name": "look", "arguments": HALF}}, {"function_call": {"arguments": REST}}]
    old = ChatReply({"role": "assistant", "content": ""}, "function_call", None, deltas)
    _, api, _ = await stream([old, answers("yes")])
    assert api.requests[1].messages[2]["tool_calls"] == [tool_call("look", HALF + REST, "call_1")]
    assert api.requests[1].results == ["note on 'a', part 0"]


async def test_text_is_shown_as_it_comes_and_reasoning_is_not(stream):
    """The pieces make up the answer; thought stays away from the screen."""
    outcome, _, seen = await stream([says("The whole answer.", reasoning_content="hm hm hm")])
    assert [delta.tool for delta in seen] == [None] * len(seen)
    assert len(seen) > 1
    assert "".join(delta.text for delta in seen) == outcome.answer == "The whole answer."


async def test_a_server_that_does_not_stream_is_read_all_the_same(chat_api):
    """JSON in answer to a request for a stream."""
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
async def test_streams_of_many_kinds_are_whole(stream, chunks):
    """A reason to finish or the closing usage makes a stream complete; what is not known is passed over."""
    outcome, _, _ = await stream([Stream(tuple(chunks))])
    assert (outcome.status, outcome.answer) == ("answered", "yes")


async def test_the_content_type_of_a_stream_is_compared_without_regard_to_case(stream):
    """`Text/Event-Stream` is a stream."""
    chunk = {"choices": [{"delta": {"content": "yes"}, "finish_reason": "stop"}]}
    outcome, _, _ = await stream([Stream((chunk,), kind="Text/Event-Stream")])
    assert outcome.answer == "yes"


def test_empty_pieces_are_not_shown():
    """Only what lengthens the text is a delta."""
    seen = []
    growing = StreamedCompletion(seen.append)
    for content in ("", None, "a", ""):
        growing.add({"choices": [{"delta": {"role": "assistant", "content": content}}]})
    assert seen == [Delta("a")]

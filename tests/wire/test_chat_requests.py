"""Requests to chat completions servers, odd replies and streams; and the rules of the simulator."""

import json
from dataclasses import replace

import httpx2
import pytest

from run_specialist.loop.evidence import NOTHING_READ
from run_specialist.providers.base import Choice, Opening, Request
from run_specialist.providers.openai_messages import encoded
from run_specialist.record.messages import Message, Usage
from run_specialist.tools.base import Toolset
from tests.loop_jobs import LOOK, job, outcome_of
from tests.wire.chat import ChatSimulator, policies, replies
from tests.wire.chat.faults import Stream, json_value
from tests.wire.chat.replies import ChatReply, answers, calls, says, tool_call
from tests.wire.chat.rules import PATH, RULES
from tests.wire.chat_messages import CALL, FORCED
from tests.wire.connected import asked, connected


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
    async with connected(api) as provider:
        conversation = provider.open(Opening("Be brief.", Toolset([LOOK]), effort))
        said = [Message.user("What?")]
        for _ in range(2):
            await conversation.ask(Request(said, Choice.AUTO, 100))
    assert [request.body.get("reasoning_effort") for request in api.requests] == [sent, sent]


async def test_without_tools_no_tool_choice_is_sent(chat_api):
    """Without tools, as for a summary, no `tool_choice` is sent either, because the API refuses it."""
    api = chat_api([says("Short."), says("Shorter.")])
    async with connected(api) as provider:
        conversation = provider.open(Opening("Sum up.", Toolset([])))
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


@pytest.mark.parametrize("blocks", [(), ({"type": "thinking", "thinking": "hm", "signature": "x"},)])
def test_an_empty_assistant_message_has_an_empty_string(blocks):
    """An assistant message has null content only if it has calls; otherwise the content is an empty string."""
    assert json.loads(encoded(Message("assistant", blocks))) == {"role": "assistant", "content": ""}


USER = {"role": "user", "content": "What?"}
RULES_LOOK = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}


def chat(*messages, **fields):
    """Return a request that is valid unless the given fields make it invalid."""
    return {
        "model": "some-model",
        "messages": [USER, *messages],
        "tools": [RULES_LOOK],
        "tool_choice": "auto",
        **fields,
    }


def called(*ids, arguments="{}"):
    """Return an assistant message that calls a tool once for each id."""
    function = {"name": "look", "arguments": arguments}
    calls = [{"id": call_id, "type": "function", "function": function} for call_id in ids]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def result(call_id):
    """Return the message with the result of a call."""
    return {"role": "tool", "tool_call_id": call_id, "content": "mice"}


def without(key):
    """Return a valid request without one key."""
    return {name: value for name, value in chat().items() if name != key}


TEXT = {"type": "string"}


def closed(**properties):
    """Return the schema of a closed object that requires all of its properties."""
    required = [*properties]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def shaped(schema, **fields):
    """Return a request for a reply that matches a schema."""
    described = {"name": "respond", "strict": True, "schema": schema, **fields}
    return chat(response_format={"type": "json_schema", "json_schema": described})


NESTED = closed()
for _ in range(10):
    NESTED = closed(inner=NESTED)
LOOP = {**closed(next={"$ref": "#/$defs/node"}), "$defs": {"node": closed(next={"$ref": "#/$defs/node"})}}

WRONG = [
    ("json", [1], "could not parse"),
    ("known_keys", chat(system="Be brief."), "Unrecognized request argument supplied: system"),
    ("required", without("model"), "'model'"),
    ("room", chat(max_completion_tokens=0), "max_completion_tokens"),
    ("effort", chat(reasoning_effort="huge"), "reasoning_effort"),
    ("stream", chat(stream_options={"include_usage": True}), "only allowed when 'stream' is enabled"),
    ("tools", chat(tools=[]), "at least 1 element"),
    ("tools", chat(tools=[{"type": "function", "function": {"name": "lo ok"}}]), "pattern"),
    ("tool_choice", without("tools"), "only allowed when 'tools' are specified"),
    ("tool_choice", chat(tool_choice={"type": "function", "function": {"name": "respond"}}), "respond"),
    ("response_format", chat(response_format="json"), "Invalid value"),
    ("response_format", shaped(closed(), shape=1), "Unknown parameter"),
    ("schema_root", shaped({"anyOf": [closed()]}), "'type: \"object\"'"),
    ("schema_type", shaped(closed(answer={"description": "Any."})), "must have a 'type' key"),
    ("schema_bounds", shaped(closed(answer={**TEXT, "maxLength": 9})), "'maxLength' is not supported"),
    ("schema_keywords", shaped(closed(answer={**TEXT, "default": ""})), "'default' is not permitted"),
    ("schema_closed", shaped({**closed(answer=TEXT), "additionalProperties": True}), "set to false"),
    ("schema_required", shaped({**closed(answer=TEXT), "required": []}), "including every key"),
    ("schema_values", shaped(closed(answer={**TEXT, "enum": ["yes", None]})), "declared type"),
    ("schema_recursion", shaped(LOOP), "recursive"),
    ("schema_size", shaped(NESTED), "11 levels"),
    ("role", chat({"role": "model", "content": "Hm."}), "'model'"),
    ("role", chat({"role": "system", "content": "Be brief."}), "only allowed at the beginning"),
    ("content", chat({"role": "user", "content": ""}), "messages[1]"),
    ("tool_calls", chat({**called("1"), "role": "user", "content": "x"}), "not allowed here"),
    ("tool_calls", chat(called("1", "1")), "was used before"),
    ("tool_calls", chat(called("1", arguments='{"half')), "no JSON object"),
    ("tool_results", chat(result("1")), "must be a response"),
    ("tool_results", chat(called("1"), result("2")), "must be a response"),
    ("tool_results", chat(called("1"), result("1"), result("1")), "must be a response"),
    ("tool_results", chat(called("1", "2"), result("1")), "missing: 2"),
]
RIGHT = [
    shaped(closed(answer=TEXT, other={"anyOf": [closed(), {"type": "null"}]})),
    shaped({"type": "object"}, strict=False),
    chat(),
    chat(called("1", "2"), result("2"), result("1"), USER, {"role": "assistant", "content": ""}),
    chat(tool_choice={"type": "function", "function": {"name": "look"}}, max_completion_tokens=9),
    chat(stream=True, stream_options={"include_usage": True}, reasoning_effort="low"),
    {"model": "some-model", "messages": [{"role": "system", "content": "Be brief."}, USER]},
]
HEADERS = {"authorization": "Bearer test", "content-type": "application/json"}


def post(api, body, *, method="POST", path=PATH, headers=None):
    """Send one request without any SDK; return status and body."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    url = api.base_url.removesuffix("/v1") + path
    response = httpx2.request(
        method, url, content=raw, headers={**HEADERS, **(headers or {})}, timeout=30, verify=False
    )
    return response.status_code, response.content


def refused(rule, status, told, body, **options):
    """Check that a request is refused by one rule, in the API's error shape."""
    with ChatSimulator(may_refuse=[rule]) as api:
        got, raw = post(api, body, **options)
        (record,) = api.requests
    assert (record.rule, got) == (rule, status), record.error
    assert told in json.loads(raw)["error"]["message"]


@pytest.mark.exhaustive(one_in=7)
@pytest.mark.parametrize(("rule", "body", "told"), WRONG, ids=[f"{n}-{case[0]}" for n, case in enumerate(WRONG)])
def test_an_invalid_body_is_refused_by_its_rule(rule, body, told):
    """A wrong request breaks exactly its rule, and is refused with a 400 in the API's shape."""
    refused(rule, 400, told, body)


def test_an_invalid_address_header_or_json_is_refused():
    """A wrong address, method or content type, a missing key and damaged JSON are refused."""
    refused("path", 404, "Invalid URL", chat(), path="/v1/messages")
    refused("path", 404, "Invalid URL", b"", method="GET")
    refused("key", 401, "API key", chat(), headers={"authorization": ""})
    refused("content_type", 400, "application/json", chat(), headers={"content-type": "text/plain"})
    refused("json", 400, "could not parse", b'{"model":')


def test_every_rule_has_a_request_that_breaks_it():
    """Every rule in the table has a request that breaks it."""
    assert {case[0] for case in WRONG} | {"path", "key", "content_type"} == {rule.id for rule in RULES}


@pytest.mark.parametrize("body", RIGHT)
def test_a_valid_body_is_accepted(body):
    """Every request that the API accepts is accepted."""
    with ChatSimulator([replies.says("Mice.")]) as api:
        status, raw = post(api, body)
    assert (status, api.requests[0].rule) == (200, None), api.requests[0].error
    assert b"Mi" in raw
    assert (b"[DONE]" in raw) == bool(body.get("stream"))


def test_a_request_above_the_output_limit_is_refused():
    """A request for more output tokens than the model gives is refused with the API's message."""
    with ChatSimulator(most_room=4096) as api:
        status, raw = post(api, chat(max_completion_tokens=4097))
    assert status == 400
    assert b"This model supports at most 4096 completion tokens" in raw


RUNS_LOOK = calls("look", {"query": "a"})


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize(
    ("content", "answer"),
    [
        ("<think>secret</think>\n\nThe answer.", "The answer."),
        ("\n<think>\nsecret\n</think>The answer.", "The answer."),
        ("The answer says <think>so</think>.", "The answer says <think>so</think>."),
        ("The answer.", "The answer."),
    ],
)
async def test_s1_6_a_think_block_is_removed_only_at_the_beginning(ask_chat, content, answer):
    """A `<think>` block is removed at the very beginning of the text only; elsewhere it is part of the answer."""
    outcome, _ = await ask_chat([says(content)])
    assert (outcome.status, outcome.answer) == ("answered", answer)


async def test_s1_6_unterminated_reasoning_is_requested_again(ask_chat):
    """A reply of unterminated reasoning is requested again, and the next reply is the answer."""
    outcome, api = await ask_chat([says("<think>and on and on"), says("<think>hm</think>yes")])
    assert (outcome.answer, len(api.requests)) == ("yes", 2)


async def test_s1_6_reasoning_is_sent_back_unchanged_and_not_shown(ask_chat):
    """Reasoning (both names), its details and unknown fields are sent back unchanged; null and empty ones are not."""
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


async def test_content_in_parts_is_sent_back_in_parts(ask_chat):
    """Content in parts is sent back in parts; a thinking part is not text of the answer."""
    parts = [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": "I look."}]
    outcome, api = await ask_chat([says(parts, CALL), says([*parts[:1], {"type": "text", "text": "Done."}])])
    assert outcome.answer == "Done."
    assert api.requests[1].messages[2]["content"] == parts


async def test_s1_7_a_call_with_broken_arguments_is_sent_back_with_an_empty_object(ask_chat):
    """A call with broken arguments is not run, and goes back as `{}` for servers that parse the history."""
    outcome, api = await ask_chat([says(None, tool_call("look", '{"query": "half')), answers("yes")])
    assert (outcome.answer, outcome.tool_calls.failed) == ("yes", 1)
    assert "the arguments are no JSON object" in api.requests[1].results[0]
    assert api.requests[1].messages[2]["tool_calls"][0]["function"]["arguments"] == "{}"


async def test_calls_without_ids_get_generated_ids(ask_chat):
    """If a local server sends no call ids, or the same one every time, every result still answers its call."""
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


async def test_x_6_a_call_cut_twice_is_sent_back_with_empty_arguments(ask_chat):
    """A call cut twice is skipped and goes back with `{}`, because servers that parse arguments refuse half of them."""
    cut = says(None, tool_call("look", '{"query": "ha'), finish_reason="length")
    outcome, api = await ask_chat([cut, cut, answers("yes")])
    assert (outcome.answer, outcome.tool_calls.used, outcome.tool_calls.skipped) == ("yes", 0, 1)
    assert api.requests[2].messages[2]["tool_calls"][0]["function"]["arguments"] == "{}"


async def test_x_8_refusals_fail_and_unknown_finish_reasons_are_warnings(ask_chat):
    """A content filter and a `refusal` text fail the run; an unknown finish reason is reported as a warning."""
    outcome, _ = await ask_chat([says("half", finish_reason="content_filter")])
    assert (outcome.exit_code, outcome.error) == (4, "the model refused to answer (content_filter)")
    outcome, _ = await ask_chat([says(None, refusal="I cannot\nhelp.")])
    assert (outcome.exit_code, outcome.error) == (4, "the model refused to answer (I cannot help.)")
    outcome, _ = await ask_chat([says("so far", CALL, finish_reason="abort")])
    assert (outcome.answer, outcome.tool_calls.used) == ("so far", 0)
    assert outcome.warnings == ("the model stopped for an unknown reason: abort", NOTHING_READ)


async def test_usage_is_summed_over_all_requests(ask_chat):
    """Usage is summed over all requests; in a stream it comes in the last chunk, which has no choices."""
    told = {"prompt_tokens": 100, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 60}}
    outcome, _ = await ask_chat([replace(RUNS_LOOK, usage=told), replace(says("Yes."), usage=told)])
    assert outcome.usage == Usage(80, 120, 0, 14)


def fragments(*pieces, **fields):
    """Return a reply that is streamed as these fragments of tool calls."""
    return ChatReply(
        {"role": "assistant", "content": ""}, "tool_calls", None, [{"tool_calls": [p]} for p in pieces], **fields
    )


def piece(arguments, name="", **fields):
    """Return a fragment of a call; `fields` are those around the function."""
    return {"function": {**({"name": name} if name else {}), "arguments": arguments}, **fields}


HALF, REST, OTHER = '{"query": ', '"a"}', '"b"}'
STREAMED = {
    "name in the first fragment only": [piece("", "look", index=0, id="1"), piece(HALF, index=0), piece(REST, index=0)],
    "everything at once": [piece(HALF + REST, "look", index=0, id="1")],
    "no index": [piece(HALF, "look", id="1"), piece(REST)],
    "id and name in every fragment": [piece(half, "look", index=0, id="1") for half in (HALF, REST)],
    "id and name are null in the others": [
        piece(None, "look", index=0, id="1"),
        {"index": 0, "id": None, "type": None, "function": {"name": None, "arguments": HALF + REST}},
    ],
    "another id in every fragment": [piece(HALF, "look", index=0, id="1"), piece(REST, index=0, id="2")],
    "arguments are an object": [piece({"query": "a"}, "look", index=0, id="1")],
    "the id comes late": [{"index": 0, "function": {"name": "look"}}, piece(HALF + REST, index=0, id="1")],
}
SEVERAL = {
    "by index, interleaved": [
        piece(HALF, "look", index=0, id="1"),
        piece(HALF, "look", index=1, id="2"),
        piece(OTHER, index=1),
        piece(REST, index=0),
    ],
    "no index, no id": [piece(HALF + REST, "look"), piece(HALF + OTHER, "look")],
    "the index is always 0": [
        piece(HALF + REST, "look", index=0, id="1"),
        piece(HALF, "look", index=0, id="2"),
        piece(OTHER, index=0),
    ],
}


@pytest.fixture
def stream(chat_api):
    """Return a function that runs a job with streamed replies and returns outcome, simulator and deltas."""

    async def run(script, **settings):
        api, seen = chat_api(script), []
        async with connected(api) as provider:
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
    outcome = await asked(api, watch=lambda delta: None)
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

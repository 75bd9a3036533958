"""Every rule of the chat simulator refuses a wrong request and lets the right one through."""

import http.client
import json
from urllib.parse import urlsplit

import pytest

from tests.wire.chat import ChatSimulator, replies
from tests.wire.chat.rules import PATH, RULES

USER = {"role": "user", "content": "What?"}
LOOK = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}


def chat(*messages, **fields):
    """Return a request that is valid unless the given fields make it invalid."""
    return {"model": "some-model", "messages": [USER, *messages], "tools": [LOOK], "tool_choice": "auto", **fields}


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
    ("known_keys", chat(top_k=1), "top_k"),
    ("required", without("model"), "'model'"),
    ("required", without("messages"), "'messages'"),
    ("required", {**chat(), "messages": []}, "'messages'"),
    ("room", chat(max_completion_tokens=0), "max_completion_tokens"),
    ("room", chat(max_completion_tokens="many"), "max_completion_tokens"),
    ("effort", chat(reasoning_effort="huge"), "reasoning_effort"),
    ("stream", chat(stream="yes"), "boolean"),
    ("stream", chat(stream_options={"include_usage": True}), "only allowed when 'stream' is enabled"),
    ("tools", chat(tools=[]), "at least 1 element"),
    ("tools", chat(tools=[{"name": "look", "input_schema": {}}]), "expected a function"),
    ("tools", chat(tools=[LOOK, LOOK]), "unique"),
    ("tools", chat(tools=[{"type": "function", "function": {"name": "lo ok"}}]), "pattern"),
    ("tools", chat(tools=[{"type": "function", "function": {"name": "look", "parameters": {}}}]), "'object'"),
    ("tool_choice", without("tools"), "only allowed when 'tools' are specified"),
    ("tool_choice", chat(tool_choice="respond"), "'respond'"),
    ("tool_choice", chat(tool_choice={"type": "function", "function": {"name": "respond"}}), "respond"),
    ("tool_choice", chat(tool_choice={"type": "tool", "name": "look"}), "Invalid value"),
    ("response_format", chat(response_format="json"), "Invalid value"),
    ("response_format", chat(response_format={"type": "json_schema", "schema": closed()}), "Invalid value"),
    ("response_format", shaped(closed(), name="re spond"), "pattern"),
    ("response_format", shaped(closed(), shape=1), "Unknown parameter"),
    ("response_format", shaped(None), "expected a schema"),
    ("schema_root", shaped({"anyOf": [closed()]}), "'type: \"object\"'"),
    ("schema_root", shaped(TEXT), "'type: \"object\"'"),
    ("schema_type", shaped(closed(answer={"description": "Any."})), "must have a 'type' key"),
    ("schema_bounds", shaped(closed(answer={**TEXT, "maxLength": 9})), "'maxLength' is not supported"),
    ("schema_keywords", shaped(closed(answer={**TEXT, "default": ""})), "'default' is not permitted"),
    ("schema_closed", shaped({**closed(answer=TEXT), "additionalProperties": True}), "set to false"),
    ("schema_required", shaped({**closed(answer=TEXT), "required": []}), "including every key"),
    ("schema_values", shaped(closed(answer={**TEXT, "enum": ["yes", None]})), "declared type"),
    ("schema_recursion", shaped(LOOP), "recursive"),
    ("schema_size", shaped(NESTED), "11 levels"),
    ("role", chat({"role": "model", "content": "Hm."}), "'model'"),
    ("role", chat("What?"), "None"),
    ("role", chat({"role": "system", "content": "Be brief."}), "only allowed at the beginning"),
    ("content", chat({"role": "user"}), "messages[1]"),
    ("content", chat({"role": "user", "content": ""}), "messages[1]"),
    ("content", chat({"role": "assistant", "content": None}), "messages[1]"),
    ("tool_calls", chat({**called("1"), "role": "user", "content": "x"}), "not allowed here"),
    ("tool_calls", chat({**called("1"), "content": "x", "tool_calls": []}), "or empty"),
    ("tool_calls", chat(called("1", "1")), "was used before"),
    ("tool_calls", chat(called("1"), result("1"), called("1"), result("1")), "was used before"),
    ("tool_calls", chat(called("1", arguments="[1]")), "no JSON object"),
    ("tool_calls", chat(called("1", arguments='{"half')), "no JSON object"),
    ("tool_calls", chat({**called(), "tool_calls": [{"id": "1", "name": "look", "input": {}}]}), "tool_calls"),
    ("tool_results", chat(result("1")), "must be a response"),
    ("tool_results", chat(called("1"), result("2")), "must be a response"),
    ("tool_results", chat(called("1"), result("1"), result("1")), "must be a response"),
    ("tool_results", chat(called("1", "2"), result("1")), "missing: 2"),
    ("tool_results", chat(called("1"), USER, result("1")), "missing: 1"),
    ("tool_results", chat(called("1"), called("2")), "missing: 1"),
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
    address = urlsplit(api.base_url)
    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=30)
    try:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        connection.request(method, path, raw, {**HEADERS, **(headers or {})})
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


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


@pytest.mark.parametrize(
    ("script", "bodies", "told"),
    [
        ([replies.says("a")], [], "never asked for"),
        ([], [chat()], "no scripted reply"),
        ([], [chat(called("1"))], "tool_results"),
    ],
)
def test_an_unexpected_conversation_fails_the_test(script, bodies, told):
    """An unused reply, a request beyond the script, and a broken rule fail the test at the end."""

    def converse():
        with ChatSimulator(script) as api:
            for body in bodies:
                post(api, body)

    with pytest.raises(AssertionError, match=told):
        converse()

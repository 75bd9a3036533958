"""The rules by which a strict chat completions server refuses a request, in the order of checking."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tests.wire import structured_outputs as outputs
from tests.wire.simulator.rules.base import Call, Table

PATH = "/v1/chat/completions"
KEYS = {
    "model",
    "messages",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "max_completion_tokens",
    "max_tokens",
    "reasoning_effort",
    "response_format",
    "stream",
    "stream_options",
}
ROLES = {"system", "user", "assistant", "tool"}
EFFORTS = {"none", "minimal", "low", "medium", "high", "xhigh", "max"}
SCHEMA_KEYS = {"name", "description", "schema", "strict"}
NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
RULES = Table()


@RULES.rule("path", 404)
def _path(call: Call) -> Iterator[str]:
    if (call.method, call.path) != ("POST", PATH):
        yield f"Invalid URL ({call.method} {call.path})"


@RULES.rule("key", 401)
def _key(call: Call) -> Iterator[str]:
    if not call.headers.get("authorization", "").removeprefix("Bearer ").strip():
        yield "You didn't provide an API key."


@RULES.rule("content_type")
def _content_type(call: Call) -> Iterator[str]:
    if "json" not in call.headers.get("content-type", "").lower():
        yield f"Unsupported content type: {call.headers.get('content-type')!r}; use application/json."


@RULES.rule("json")
def _json(call: Call) -> Iterator[str]:
    if not isinstance(call.body, dict):
        yield "We could not parse the JSON body of your request."


@RULES.rule("known_keys")
def _known_keys(call: Call) -> Iterator[str]:
    yield from (f"Unrecognized request argument supplied: {key}" for key in call.body if key not in KEYS)


@RULES.rule("required")
def _required(call: Call) -> Iterator[str]:
    for key, kind in (("model", str), ("messages", list)):
        if not isinstance(call.body.get(key), kind) or not call.body[key]:
            yield f"Missing required parameter: '{key}'."


@RULES.rule("room")
def _room(call: Call) -> Iterator[str]:
    room = call.body.get("max_completion_tokens", 1)
    if not isinstance(room, int) or room < 1:
        yield f"Invalid 'max_completion_tokens': {room!r} is no integer of at least 1."


@RULES.rule("effort")
def _effort(call: Call) -> Iterator[str]:
    if call.body.get("reasoning_effort", "low") not in EFFORTS:
        yield f"Invalid value: {call.body['reasoning_effort']!r} for 'reasoning_effort'."


@RULES.rule("stream")
def _stream(call: Call) -> Iterator[str]:
    if not isinstance(call.body.get("stream", False), bool):
        yield "Invalid type for 'stream': expected a boolean."
    if "stream_options" in call.body and call.body.get("stream") is not True:
        yield "The 'stream_options' parameter is only allowed when 'stream' is enabled."


@RULES.rule("tools")
def _tools(call: Call) -> Iterator[str]:
    tools = call.body.get("tools", [{}])
    if not isinstance(tools, list) or not tools:
        yield "Invalid 'tools': expected an array with at least 1 element."
        return
    names = []
    for number, tool in enumerate(call.body.get("tools", ())):
        function = tool.get("function") if isinstance(tool, Mapping) and tool.get("type") == "function" else None
        if not isinstance(function, Mapping) or set(function) - {"name", "description", "parameters", "strict"}:
            yield f"Invalid 'tools[{number}]': expected a function."
            continue
        if not NAME.fullmatch(str(function.get("name"))):
            yield f"Invalid 'tools[{number}].function.name': string does not match the pattern."
        if function.get("parameters", {"type": "object"}).get("type") != "object":
            yield f"Invalid schema for function '{function.get('name')}': schema must be of type 'object'."
        names.append(function.get("name"))
    if len(set(names)) < len(names):
        yield "Invalid 'tools': names must be unique."


@RULES.rule("tool_choice")
def _tool_choice(call: Call) -> Iterator[str]:
    if "tool_choice" not in call.body:
        return
    if "tools" not in call.body:
        yield "Invalid value for 'tool_choice': 'tool_choice' is only allowed when 'tools' are specified."
    names = [tool["function"]["name"] for tool in call.body.get("tools", ())]
    match call.body["tool_choice"]:
        case "auto" | "none" | "required":
            pass
        case {"type": "function", "function": {"name": name}} if name in names:
            pass
        case other:
            yield f"Invalid value for 'tool_choice': {other!r}."


@RULES.rule("response_format")
def _format(call: Call) -> Iterator[str]:
    form = call.body.get("response_format", {"type": "text"})
    match form:
        case {"type": "text" | "json_object"} if len(form) == 1:
            return
        case {"type": "json_schema", "json_schema": dict(given)} if len(form) == 2:
            yield from (
                f"Unknown parameter: 'response_format.json_schema.{key}'." for key in given.keys() - SCHEMA_KEYS
            )
            if not NAME.fullmatch(str(given.get("name", ""))):
                yield "Invalid 'response_format.json_schema.name': string does not match the pattern."
            if not isinstance(given.get("schema"), dict) or not isinstance(given.get("strict", False), bool):
                yield "Invalid 'response_format.json_schema': expected a schema."
        case _:
            yield "Invalid value for 'response_format'."


def _root(schema: outputs.Schema) -> Iterator[str]:
    if schema.get("type") != "object" or "anyOf" in schema:
        yield ": schema must be a JSON Schema of 'type: \"object\"'"


def _enter(rule_id: str, check: Callable[[outputs.Schema], Iterator[str]]) -> None:
    @RULES.rule(f"schema_{rule_id}")
    def checked(call: Call) -> Iterator[str]:
        given: Any = call.body.get("response_format", {}).get("json_schema", {})
        if given.get("strict") is True:
            name = given["name"]
            yield from (f"Invalid schema for response_format '{name}': {broken}" for broken in check(given["schema"]))


_schemas = {"root": _root, **outputs.RULES, "required": outputs.optional, "size": outputs.too_large}
for _id, _check in _schemas.items():
    _enter(_id, _check)


@RULES.rule("role")
def _role(call: Call) -> Iterator[str]:
    for number, message in enumerate(call.body["messages"]):
        role = message.get("role") if isinstance(message, Mapping) else None
        if role not in ROLES:
            yield f"Invalid value: {role!r} for 'messages[{number}].role'."
        elif role == "system" and number > 0:
            yield f"messages[{number}]: system messages are only allowed at the beginning."


@RULES.rule("content")
def _content(call: Call) -> Iterator[str]:
    for number, message in enumerate(call.body["messages"]):
        content, calls = message.get("content"), message.get("tool_calls")
        if content is None and message["role"] == "assistant" and calls:
            continue
        if not isinstance(content, str | list) or (content in ("", []) and message["role"] != "assistant"):
            yield f"Invalid value for 'content' of messages[{number}]: expected a string."


@RULES.rule("tool_calls")
def _tool_calls(call: Call) -> Iterator[str]:
    seen: set[str] = set()
    for number, message in enumerate(call.body["messages"]):
        if "tool_calls" in message and (message["role"] != "assistant" or not message["tool_calls"]):
            yield f"messages[{number}].tool_calls: not allowed here, or empty."
        for wanted in message.get("tool_calls") or ():
            match wanted:
                case {"id": str(call_id), "type": "function", "function": {"name": str(), "arguments": str(text)}}:
                    if not call_id or call_id in seen:
                        yield f"messages[{number}].tool_calls: the id {call_id!r} is empty or was used before."
                    seen.add(call_id)
                    if not _is_object(text):
                        yield f"messages[{number}].tool_calls: arguments are no JSON object: {text}"
                case _:
                    yield f"Invalid 'messages[{number}].tool_calls'."


@RULES.rule("tool_results")
def _tool_results(call: Call) -> Iterator[str]:
    owed: list[str] = []
    for number, message in enumerate([*call.body["messages"], {"role": "end"}]):
        if message["role"] == "tool":
            if message.get("tool_call_id") not in owed:
                yield f"messages[{number}] with role 'tool' must be a response to a preceding 'tool_calls'."
            else:
                owed.remove(message["tool_call_id"])
            continue
        if owed:
            ids = ", ".join(owed)
            yield f"An assistant message with 'tool_calls' must be followed by tool messages; missing: {ids}"
        owed = [wanted["id"] for wanted in message.get("tool_calls") or ()]


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False

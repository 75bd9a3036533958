"""Validate requests like the Messages API, as far as a tool loop can violate its rules."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from bench.server.cache import blocks
from bench.server.refusal import Refused

Json = Mapping[str, Any]
_UNFORCEABLE = re.compile(r"(opus|sonnet)-5-5|fable-5|mythos")
_REMOVED = ("temperature", "top_p", "top_k")


def check(request: Json) -> None:
    """Raise Refused for a request that the API would reject."""
    if not isinstance(request.get("max_tokens"), int):
        raise Refused("max_tokens: Field required")
    for name in _REMOVED:
        if name in request:
            raise Refused(f"{name}: Extra inputs are not permitted")
    messages = request.get("messages")
    if not messages:
        raise Refused("messages: at least one message is required")
    if messages[-1]["role"] != "user":
        raise Refused("This model does not support assistant message prefill. The conversation must end with a user.")
    _check_choice(request)
    _check_format(request)
    _check_messages(messages)


def _check_choice(request: Json) -> None:
    choice = request.get("tool_choice")
    if not choice:
        return
    names = {tool.get("name") for tool in request.get("tools") or ()}
    if not names:
        raise Refused("tool_choice may only be specified while providing tools.")
    if choice["type"] not in {"tool", "any"}:
        return
    if _UNFORCEABLE.search(request["model"]):
        raise Refused('tool_choice: type "tool" and "any" are not supported for this model.')
    if (request.get("thinking") or {}).get("type") == "enabled":
        raise Refused("Thinking may not be enabled when tool_choice forces tool use.")
    if choice["type"] == "tool" and choice.get("name") not in names:
        raise Refused(f"Tool '{choice.get('name')}' not found in provided tools")


def _check_format(request: Json) -> None:
    form = (request.get("output_config") or {}).get("format")
    if not form:
        return
    schema = form.get("schema") or {}
    if form.get("type") != "json_schema" or schema.get("type") != "object":
        raise Refused("output_config.format: Input should be a JSON schema format")
    if schema.get("additionalProperties") is not False:
        raise Refused("output_config.format.schema: 'additionalProperties' must be explicitly set to false")


def _check_messages(messages: Sequence[Json]) -> None:
    """Require exactly one result per call, at the start of the next message."""
    open_calls: list[str] = []
    for at, message in enumerate(messages):
        content = blocks(message["content"])
        if not content or any(block["type"] == "text" and not block["text"] for block in content):
            raise Refused(f"messages.{at}: text content blocks must be non-empty")
        results = [block["tool_use_id"] for block in content if block["type"] == "tool_result"]
        if sorted(results) != sorted(open_calls):
            raise Refused(
                f"messages.{at}: `tool_use` ids were found without `tool_result` blocks immediately after, "
                f"or the other way round: {', '.join(sorted({*results} ^ {*open_calls})) or 'twice'}"
            )
        if any(block["type"] != "tool_result" for block in content[: len(results)]):
            raise Refused(f"messages.{at}: tool_result blocks must come first")
        asks = message["role"] == "assistant"
        open_calls = [block["id"] for block in content if block["type"] == "tool_use"] if asks else []

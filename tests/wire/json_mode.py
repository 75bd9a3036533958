"""Replies of a chat completions server that constrains them to one tool call in JSON."""

import json
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

from tests.wire import structured_outputs as outputs
from tests.wire.chat.replies import ChatReply, says

JSON_MODE: dict[str, Any] = {"tool_calls": "json"}


def written(tool: str, **arguments: Any) -> str:
    """Return a call as the model writes it."""
    return json.dumps({"call": {"tool": tool, "arguments": arguments}})


def looks(query: str) -> ChatReply:
    """Build a reply that calls `look`, with null for the argument that it does not need."""
    return says(written("look", query=query, part=None))


def responds(answer: str, **fields: Any) -> ChatReply:
    """Build a reply that calls `respond`."""
    return says(written("respond", **{"answer": answer, "evidence": None, "gaps": None, **fields}))


def offered(request: Any) -> list[str]:
    """Return the tools that the schema of a chat completions request allows; empty if it has none."""
    form = request.body.get("response_format")
    if form is None:
        return []
    assert (form["type"], form["json_schema"]["name"], form["json_schema"]["strict"]) == ("json_schema", "call", True)
    return tools_in(form["json_schema"]["schema"])


def tools_in(schema: Any) -> list[str]:
    """Return the tools that the schema of a call allows, after checking that the vendors accept it."""
    assert not list(broken_in(schema))
    branches = schema["properties"]["call"]["anyOf"]
    return [branch["properties"]["tool"]["enum"][0] for branch in branches]


def broken_in(schema: Mapping[str, Any]) -> Iterator[str]:
    """Yield what strict decoding does not support in a schema."""
    rules = (outputs.unsupported, outputs.bounded, outputs.mistyped, outputs.open_objects, outputs.optional)
    return chain.from_iterable(rule(schema) for rule in rules)

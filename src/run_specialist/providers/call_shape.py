"""The JSON form of a tool call: the schema of a reply that is one call; writing and reading calls in this form.

{"call": {"tool": "search", "arguments": {"query": "cache", "limit": null}}}
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from run_specialist.providers.json_reader import read_arguments
from run_specialist.specialist.json_schema.strict import restored, strict
from run_specialist.tools.base import Tool, Toolset
from run_specialist.tools.respond import NAME as RESPOND

FORMAT = "call"
"""Name of the format in requests."""
_FIRST_QUOTE = {
    "source": {"type": "string", "description": "The `path:line` of the line of a result that the answer rests on."},
    "quote": {"type": "string", "description": "That line, word for word."},
}
_FENCED = re.compile(r"```(?:json)?[ \t]*\n(.*?)\n?```", re.DOTALL | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class WrittenCall:
    """A tool call in the text of a reply."""

    tool: str
    arguments: Mapping[str, Any] | None
    """None if the arguments are not an object."""


def call_schema(tools: Iterable[Tool]) -> dict[str, Any]:
    """Return the schema of a reply that calls one of some tools, adapted for constrained decoding."""
    return _closed({"call": {"anyOf": [_call_of(tool) for tool in tools]}})


def written_arguments(tool: Tool) -> dict[str, Any]:
    """Return the strict schema of the arguments as the model writes them: an object, or JSON in a string."""
    return strict(_as_written(tool))


def _as_written(tool: Tool) -> Mapping[str, Any]:
    """Return the schema of a tool's arguments; `respond` begins with one required quote.

    Small models leave a list of quotes empty, and write a better answer after the sentence that supports it.
    """
    schema = tool.input_schema
    if not schema.get("properties") and schema.get("additionalProperties") is None:
        # A tool without parameters, whose schema does not say that there are no others either.
        return {**schema, "additionalProperties": False}
    if tool.name != RESPOND or "evidence" not in schema.get("properties", {}):
        return schema
    properties = {**_FIRST_QUOTE, **schema["properties"]}
    return {**schema, "properties": properties, "required": [*_FIRST_QUOTE, *schema.get("required", ())]}


def _as_meant(tool: Tool, given: object) -> Mapping[str, Any] | None:
    """Return the arguments of a call in the form that its tool expects; None if they are not an object."""
    arguments = restored(given, _as_written(tool))
    if not isinstance(arguments, dict) or tool.name != RESPOND:
        return arguments if isinstance(arguments, dict) else None
    others = {key: value for key, value in arguments.items() if key not in _FIRST_QUOTE}
    first = {key: arguments[key] for key in _FIRST_QUOTE if arguments.get(key)}
    if not first:
        return others
    more = others.get("evidence") or []
    return {**others, "evidence": [first, *(more if isinstance(more, list) else [more])]}


def _call_of(tool: Tool) -> dict[str, Any]:
    return _closed(
        {"tool": {"type": "string", "enum": [tool.name]}, "arguments": _undescribed(written_arguments(tool))}
    )


def _closed(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}


def _undescribed(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a strict schema without descriptions, because the system prompt contains them."""
    converted: dict[str, Any] = {}
    for key, value in schema.items():
        match key:
            case "description":
                continue
            case "properties":
                converted[key] = {name: _undescribed(part) for name, part in value.items()}
            case "items":
                converted[key] = _undescribed(value)
            case "anyOf":
                converted[key] = [_undescribed(branch) for branch in value]
            case _:
                converted[key] = value
    return converted


def written(tool: str, arguments: object) -> str:
    """Return a call as the text of an assistant message."""
    return json.dumps({"call": {"tool": tool, "arguments": arguments}}, ensure_ascii=False)


def read_call(text: str, tools: Toolset, *, cut: bool = False) -> WrittenCall | None:
    """Return the call that a text consists of; None for any other text.

    cut: the text may be incomplete; the received part is returned, because a cut call is never run.
    """
    stripped = text.strip()
    fenced = _FENCED.fullmatch(stripped)
    match read_arguments(fenced[1] if fenced else stripped, cut=cut):
        case {"call": {"tool": str(name), **rest}} if name:
            arguments, tool = rest.get("arguments"), tools.get(name)
            if tool is not None:
                return WrittenCall(name, _as_meant(tool, arguments))
            return WrittenCall(name, arguments if isinstance(arguments, dict) else None)
        case _:
            return None

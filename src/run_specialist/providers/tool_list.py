"""Describe tools in the system prompt, for requests that have no field for them."""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from run_specialist.providers.call_shape import written_arguments
from run_specialist.tools.base import Tool
from run_specialist.tools.respond import NAME as RESPOND


def tool_list(tools: Iterable[Tool]) -> str:
    """Return the tools as text, each with its description and its parameters; `respond` comes last."""
    in_order = sorted(tools, key=lambda tool: tool.name == RESPOND)
    return "\n".join(line for tool in in_order for line in _lines(tool))


def _lines(tool: Tool) -> Iterator[str]:
    yield f"- {tool.name}: {tool.description}"
    given, arguments = tool.input_schema.get("properties", {}), written_arguments(tool)
    if arguments.get("type") != "object":
        yield f"  arguments ({_kind(arguments)}): {_description(arguments)}"
    for name, part in arguments.get("properties", {}).items():
        told = [_description(part), *_left_out(given.get(name))]
        yield " ".join([f"  {name} ({_kind(part)})" + (":" if any(told) else ""), *filter(None, told)])


def _left_out(schema: object) -> Iterator[str]:
    """Yield constraints that the strict schema of a parameter lacks and small models violate."""
    if isinstance(schema, Mapping):
        if schema.get("default") is not None:
            yield f"null means {json.dumps(schema['default'], ensure_ascii=False)}."
        if isinstance(schema.get("maximum"), int | float):
            yield f"At most {schema['maximum']}."


def _description(schema: Mapping[str, Any]) -> str:
    """Return the description of a parameter, which is in a branch if the parameter is optional."""
    own = schema.get("description")
    return str(own) if own else next(filter(None, map(_description, schema.get("anyOf", ()))), "")


def _kind(schema: Mapping[str, Any]) -> str:
    """Return the type of a value in a short notation."""
    match schema:
        case {"enum": [*values]}:
            return " | ".join(json.dumps(value, ensure_ascii=False) for value in values)
        case {"anyOf": [*branches]}:
            return " | ".join(dict.fromkeys(map(_kind, branches)))
        case {"type": "array", "items": items}:
            return f"[{_kind(items)}, ...]"
        case {"type": "object", "properties": properties}:
            fields = ", ".join(f"{name}: {_kind(part)}" for name, part in properties.items())
            return f"{{{fields}}}"
        case {"type": str(kind)}:
            return kind
        case _:
            return "any"

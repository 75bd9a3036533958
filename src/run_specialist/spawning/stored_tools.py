"""Offer the tools of a resumed run with their stored definitions, so that the prompt keeps the same bytes."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from run_specialist.errors import ToolError
from run_specialist.tools.base import Tool, Toolset

_BOUNDS = ("max_uses", "max_content_tokens")
"""Parts of the definition of an API tool that depend on limits, which a resumption may change."""


def as_stored(definitions: Sequence[Mapping[str, Any]], tools: Toolset) -> Toolset:
    """Return the tools with their stored definitions and their current functions."""
    return Toolset(_with_definition(definition, tools.get(definition["name"])) for definition in definitions)


def _with_definition(definition: Mapping[str, Any], tool: Tool | None) -> Tool:
    if "input_schema" not in definition:
        return _of_server(definition, tool)
    name, description, schema = definition["name"], definition["description"], definition["input_schema"]
    if tool is None:
        return Tool(name, description, _unavailable, schema=schema)
    return replace(tool, description=description, schema=schema)


def _of_server(definition: Mapping[str, Any], tool: Tool | None) -> Tool:
    """Return a tool that the API runs, with its stored bounds.

    Others may have written to the store, and the API runs every offered tool. So a tool that the run would not get
    today is replaced by one that does nothing, although this changes the prompt.
    """
    if tool is None or not tool.on_server:
        return Tool(definition["name"], "No longer available.", _unavailable, schema={"type": "object"})
    is_same = _unbounded(definition) == _unbounded(tool.on_server)
    return replace(tool, on_server=definition) if is_same else tool


def _unbounded(definition: Mapping[str, Any]) -> Mapping[str, Any]:
    return {key: value for key, value in definition.items() if key not in _BOUNDS}


def _unavailable(**arguments: Any) -> str:  # noqa: ANN401 - the model may give any arguments
    del arguments
    raise ToolError("this tool is no longer there")

"""The tools that an MCP server lists, in names and schemas that a model can be given."""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

LONGEST_NAME = 64
LONGEST_DESCRIPTION = 10_000
LARGEST_SCHEMA = 100_000

_ODD = re.compile(r"[^A-Za-z0-9_-]")
_PROPERTY = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_DIGEST = 8
_UNFIT_AT_THE_TOP = ("anyOf", "oneOf", "allOf", "not", "enum", "const", "$schema", "$id")
_ANYTHING: Mapping[str, Any] = {"type": "object", "properties": {}}


@dataclass(frozen=True, slots=True)
class Definition:
    """What a model is told of one tool of a server."""

    name: str
    """As a model calls it: `mcp__server__tool`."""
    called: str
    """As the server calls it."""
    description: str
    schema: Mapping[str, Any]


def definitions(
    server: str, listed: Iterable[tuple[str, str, Mapping[str, Any]]], taken: set[str]
) -> Iterator[Definition]:
    """Yield the tools of a server, each under a name of its own; of two that the server calls alike the first.

    listed: name, description and JSON Schema of the arguments, as the server tells them.
    taken: names that are given already; those that are given here are added.
    """
    by_call: dict[str, tuple[str, Mapping[str, Any]]] = {}
    for called, description, schema in listed:
        by_call.setdefault(called, (description, schema))
    # In the same order whenever it is asked, so that a run that is taken up finds the same names.
    for called, (description, schema) in sorted(by_call.items()):
        name = tool_name(server, called)
        if name in taken:
            name = _marked(name, f"{server}/{called}")
        taken.add(name)
        fit, told = fit_schema(schema)
        yield Definition(
            name, called, "\n".join(filter(None, [description[:LONGEST_DESCRIPTION] or called, told])), fit
        )


def tool_name(server: str, called: str) -> str:
    """Return `mcp__server__tool` in the letters that a model's API takes, cut with a mark of its own if too long."""
    name = f"mcp__{server}__{_ODD.sub('_', called)}"
    return name if len(name) <= LONGEST_NAME else _marked(name, f"{server}/{called}")


def _marked(name: str, whole: str) -> str:
    mark = hashlib.sha256(whole.encode()).hexdigest()[:_DIGEST]
    return f"{name[: LONGEST_NAME - _DIGEST - 1]}_{mark}"


def fit_schema(schema: Mapping[str, Any]) -> tuple[Mapping[str, Any], str]:
    """Return a schema that a model's API takes, and what it no longer says, in words for the description.

    One that is not valid would have every request refused, so any arguments are taken then; the server checks them.
    """
    fit = {key: value for key, value in schema.items() if key not in _UNFIT_AT_THE_TOP}
    fit = {**fit, "type": "object", "properties": schema.get("properties") or {}}
    lost = {key: schema[key] for key in _UNFIT_AT_THE_TOP if key in schema and not key.startswith("$")}
    if not _is_taken(fit):
        fit, lost = dict(_ANYTHING), dict(schema)
    told = json.dumps(lost, ensure_ascii=False)[:LONGEST_DESCRIPTION] if lost else ""
    return fit, f"The arguments are held against this JSON Schema: {told}" if told else ""


def _is_taken(schema: Mapping[str, Any]) -> bool:
    from jsonschema import Draft202012Validator, SchemaError  # noqa: PLC0415 - slow to load

    properties = schema["properties"]
    if not isinstance(properties, Mapping) or not all(_PROPERTY.fullmatch(str(key)) for key in properties):
        return False
    try:
        if len(json.dumps(schema)) > LARGEST_SCHEMA:
            return False
        Draft202012Validator.check_schema(schema)
    except (SchemaError, ValueError, RecursionError):
        return False
    return True

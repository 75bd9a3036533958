"""Names and schemas of an MCP server's tools, adapted to the rules of model APIs."""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

LONGEST_NAME = 64
LONGEST_DESCRIPTION = 10_000
LARGEST_SCHEMA = 100_000

_NOT_ALLOWED = re.compile(r"[^A-Za-z0-9_-]")
_PROPERTY = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_DIGEST = 8
_UNSUPPORTED_AT_TOP = ("anyOf", "oneOf", "allOf", "not", "enum", "const", "$schema", "$id")
_ANY_ARGUMENTS: Mapping[str, Any] = {"type": "object", "properties": {}}


@dataclass(frozen=True, slots=True)
class Definition:
    """Definition of one tool of a server for the model."""

    name: str
    """Name for the model: `mcp__server__tool`."""
    called: str
    """Name of the tool on the server."""
    description: str
    schema: Mapping[str, Any]


def definitions(
    server: str, listed: Iterable[tuple[str, str, Mapping[str, Any]]], taken: set[str]
) -> Iterator[Definition]:
    """Yield the tools of a server under unique names; of several with the same name on the server, only the first.

    listed: name, description and JSON Schema of the arguments of each tool, as listed by the server.
    taken: names already in use; the new names are added.
    """
    by_call: dict[str, tuple[str, Mapping[str, Any]]] = {}
    for called, description, schema in listed:
        by_call.setdefault(called, (description, schema))
    # A stable order, so that a resumed run gets the same names.
    for called, (description, schema) in sorted(by_call.items()):
        name = tool_name(server, called)
        if name in taken:
            name = _with_digest(name, f"{server}/{called}")
        taken.add(name)
        accepted, note = fit_schema(schema)
        yield Definition(
            name, called, "\n".join(filter(None, [description[:LONGEST_DESCRIPTION] or called, note])), accepted
        )


def tool_name(server: str, called: str) -> str:
    """Return `mcp__server__tool` in the characters model APIs allow, truncated with a digest if too long."""
    name = f"mcp__{server}__{_NOT_ALLOWED.sub('_', called)}"
    return name if len(name) <= LONGEST_NAME else _with_digest(name, f"{server}/{called}")


def _with_digest(name: str, text: str) -> str:
    digest = hashlib.sha256(text.encode()).hexdigest()[:_DIGEST]
    return f"{name[: LONGEST_NAME - _DIGEST - 1]}_{digest}"


def fit_schema(schema: Mapping[str, Any]) -> tuple[Mapping[str, Any], str]:
    """Return a schema that model APIs accept, and a note for the description with the constraints it lost.

    An invalid schema would make the API reject every request, so it is replaced by one that allows any arguments; the
    server validates them.
    """
    accepted = {key: value for key, value in schema.items() if key not in _UNSUPPORTED_AT_TOP}
    accepted = {**accepted, "type": "object", "properties": schema.get("properties") or {}}
    lost = {key: schema[key] for key in _UNSUPPORTED_AT_TOP if key in schema and not key.startswith("$")}
    if not _is_accepted(accepted):
        accepted, lost = dict(_ANY_ARGUMENTS), dict(schema)
    note = json.dumps(lost, ensure_ascii=False)[:LONGEST_DESCRIPTION] if lost else ""
    return accepted, f"The arguments are held against this JSON Schema: {note}" if note else ""


def _is_accepted(schema: Mapping[str, Any]) -> bool:
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

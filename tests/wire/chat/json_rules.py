"""The rules of a server that constrains replies to a JSON Schema: what it accepts as `response_format`."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from .rules import KEYS, Call, rule

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
KEYWORDS = {"type", "enum", "anyOf", "properties", "required", "additionalProperties", "items", "description"}
KEYS.add("response_format")


@rule("response_format")
def _response_format(call: Call) -> Iterator[str]:
    """Require a named strict format whose schema has only the keywords that strict decoding supports."""
    form = call.body.get("response_format")
    match form:
        case None:
            pass
        case {"type": "json_schema", "json_schema": {"name": str(name), "strict": True, "schema": dict(schema)}}:
            if not NAME.fullmatch(name):
                yield f"Invalid 'response_format.json_schema.name': {name!r}."
            if schema.get("type") != "object":
                yield f"Invalid schema for response_format '{name}': schema must be of type 'object'."
            yield from (f"Invalid schema for response_format '{name}': {line}" for line in broken_in(schema, ()))
        case _:
            yield "Invalid 'response_format'."


def broken_in(schema: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    """Yield what strict decoding does not support in a schema."""
    place = "/".join(path) or "the root"
    for key in schema.keys() - KEYWORDS:
        yield f"in {place}: {key!r} is not permitted."
    if schema.get("type") == "object":
        properties = schema.get("properties", {})
        if schema.get("additionalProperties") is not False:
            yield f"in {place}: 'additionalProperties' is required to be supplied and to be false."
        if sorted(schema.get("required", ())) != sorted(properties):
            yield f"in {place}: 'required' must be an array including every key in properties."
        for name, part in properties.items():
            yield from broken_in(part, (*path, name))
    if not schema.keys() & {"type", "anyOf", "enum"}:
        yield f"in {place}: schema must have a 'type' key."
    for number, branch in enumerate(schema.get("anyOf", ())):
        yield from broken_in(branch, (*path, str(number)))
    if schema.get("type") == "array":
        yield from broken_in(schema.get("items", {}), (*path, "items"))

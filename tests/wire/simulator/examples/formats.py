"""Examples for `output_config.format`."""

from typing import Any

from .base import Body, Example, request

TEXT = {"type": "string"}


def form(schema: Any, **config: Any) -> Body:
    """Return a request for a reply that matches a schema."""
    return request(output_config={"format": {"type": "json_schema", "schema": schema}, **config})


def closed(*required: str, **properties: Any) -> Body:
    """Return the schema of a closed object."""
    return {
        "type": "object",
        "properties": properties,
        "required": [*(required or properties)],
        "additionalProperties": False,
    }


def nested(levels: int) -> Body:
    """Return so many objects inside one another."""
    schema = closed()
    for _ in range(levels - 1):
        schema = closed(inner=schema)
    return schema


GOOD = form(closed(answer=TEXT), effort="low")
LOOP = {**closed(next={"$ref": "#/$defs/node"}), "$defs": {"node": closed(next={"$ref": "#/$defs/node"})}}
SHARED = {**closed(one={"$ref": "#/$defs/text"}, two={"$ref": "#/$defs/text"}), "$defs": {"text": TEXT}}
OPTIONAL = {"anyOf": [TEXT, {"type": "null"}]}


def unions(count: int) -> Body:
    """Return an object with so many properties that may be null."""
    return closed(**{f"p{number}": OPTIONAL for number in range(count)})


PAIRS: list[tuple[str, str, Body, Body]] = [
    ("output_config.format", "output_config.format", request(output_config={"format": "json"}), GOOD),
    ("output_config.format", "output_config.format", request(output_config={"format": {"type": "json"}}), GOOD),
    (
        "output_config.format",
        "format.name: Extra inputs",
        request(output_config={"format": {"type": "json_schema", "schema": closed(), "name": "respond"}}),
        form(closed()),
    ),
    ("output_config.schema_type", "'type' key", form(closed(answer={})), form(closed(answer=TEXT))),
    *(
        ("output_config.schema_bounds", f"'{key}' is not supported", form(closed(answer={**TEXT, key: 1})), GOOD)
        for key in ("minLength", "maximum", "minItems")
    ),
    ("output_config.schema_keywords", "'default'", form(closed(answer={**TEXT, "default": ""})), GOOD),
    (
        "output_config.schema_keywords",
        "missing items",
        form(closed(answers={"type": "array"})),
        form(closed(answers={"type": "array", "items": TEXT})),
    ),
    ("output_config.schema_closed", "must be explicitly set", form({"type": "object", "properties": {}}), GOOD),
    (
        "output_config.schema_closed",
        "must be explicitly set",
        form(closed(inner={"type": "object", "properties": {}, "additionalProperties": True})),
        form(closed(inner=closed())),
    ),
    (
        "output_config.schema_values",
        "does not match",
        form(closed(answer={"type": "object", "enum": [{}], "additionalProperties": False})),
        form(closed(answer={**TEXT, "enum": ["yes", "no"]})),
    ),
    ("output_config.schema_values", "does not match", form(closed(answer={**TEXT, "enum": ["yes", None]})), GOOD),
    ("output_config.schema_recursion", "recursive", form(LOOP), form(SHARED)),
    ("output_config.schema_recursion", "resolved", form(closed(answer={"$ref": "#/$defs/none"})), GOOD),
    ("output_config.schema_unions", "union types", form(unions(17)), form(unions(16))),
    ("output_config.schema_size", "levels of nesting", form(nested(11)), form(nested(10))),
]
EXAMPLES = tuple(Example(*pair) for pair in PAIRS)

"""JSON Schema of the front matter, for editors."""

from typing import Any

from run_specialist.specialist.fields import Specialist
from run_specialist.specialist.keys import CANONICAL


def json_schema() -> dict[str, Any]:
    """Return the schema (draft 2020-12) of the canonical keys; any other key is allowed."""
    model_schema = Specialist.model_json_schema()
    countdown = model_schema["$defs"]["Countdown"]
    properties = {key: _property(model_schema["properties"][key]) for key in CANONICAL}
    # A validator expands the string "none" to a map, so the model's own schema does not allow it.
    reference = properties["countdown"].pop("$ref")
    properties["countdown"]["anyOf"] = [{"$ref": reference}, {"const": "none"}]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Specialist",
        "description": "Front matter of a specialist's Markdown file.",
        "type": "object",
        "properties": properties,
        "additionalProperties": True,
        "$defs": {
            "Countdown": countdown
            | {"properties": {key: _property(schema) for key, schema in countdown["properties"].items()}}
        },
    }


def _property(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of one key without titles and null, because null in a file means an empty value."""
    kept = {key: value for key, value in schema.items() if key not in ("title", "default", "anyOf")}
    default = schema.get("default")
    if default not in (None, []) and not isinstance(default, dict):
        kept["default"] = default
    choices = [choice for choice in schema.get("anyOf", ()) if choice.get("type") != "null"]
    if not choices:
        return kept
    return kept | (choices[0] if len(choices) == 1 else {"anyOf": choices})

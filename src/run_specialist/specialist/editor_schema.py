"""JSON Schema of the front matter, for editors."""

from collections.abc import Sequence
from typing import Any

from run_specialist.specialist.fields import Specialist
from run_specialist.specialist.keys import CANONICAL
from run_specialist.specialist.tool_names import BUILT_IN

_TOOLS = tuple(name for name in BUILT_IN if name != "respond")
"""Tools that a file may name; `respond` is always offered."""


def json_schema(models: Sequence[str] = ()) -> dict[str, Any]:
    """Return the schema (draft 2020-12) of the canonical keys; any other key is allowed.

    models: Names of models that editors suggest; any other name is valid too.
    """
    model_schema = Specialist.model_json_schema()
    countdown = model_schema["$defs"]["Countdown"]
    properties = {key: _property(model_schema["properties"][key]) for key in CANONICAL}
    # A validator expands the string "none" to a map, so the model's own schema does not allow it.
    reference = properties["countdown"].pop("$ref")
    for key in ("tools", "disallowed_tools"):
        for choice in properties[key]["anyOf"]:
            if choice.get("type") == "array":
                choice["items"] = _suggested(_TOOLS)
    one = _suggested(models) if models else {"anyOf": [{"type": "string"}]}
    several = {"type": "array", "items": {"type": "string"}}
    properties["model"] = {"anyOf": [*one["anyOf"], several], "description": properties["model"]["description"]}
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


def _suggested(names: Sequence[str]) -> dict[str, Any]:
    """Return the schema of a text for which editors suggest names."""
    return {"anyOf": [{"enum": list(names)}, {"type": "string"}]}

"""Parts of a schema for constrained decoding: the shape of their values, and the conversion back."""

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

_KINDS: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "number": (int, float),
    "integer": (int,),
    "boolean": (bool,),
    "null": (type(None),),
    "array": (list,),
    "object": (dict,),
}
SCALARS = ("string", "boolean", "integer", "number", "null")
"""Types that contain no other values; integer comes before number."""
NULL = {"type": "null"}
_AS_JSON = "As JSON in a string."


@dataclass(frozen=True, slots=True)
class Part:
    """A converted part of a schema."""

    schema: dict[str, Any]
    restore: Callable[[Any], object]
    """Converts a value back, as far as possible even if it does not match the converted schema."""


def matches(value: object, schema: Mapping[str, Any]) -> bool:
    """Return whether a value matches a schema for constrained decoding."""
    if "anyOf" in schema:
        return any(matches(value, branch) for branch in schema["anyOf"])
    values = [schema["const"]] if "const" in schema else schema.get("enum", [value])
    if value not in values or not ("type" not in schema or is_kind(schema["type"], value)):
        return False
    if isinstance(value, dict) and "properties" in schema:
        parts = schema["properties"]
        return value.keys() == parts.keys() and all(matches(value[name], parts[name]) for name in value)
    items = schema.get("items", {})
    return not isinstance(value, list) or all(matches(item, items) for item in value)


@dataclass(frozen=True, slots=True)
class Alternatives:
    """Converts a value back with the alternative that it matches."""

    parts: list[Part]

    def __call__(self, value: object) -> object:
        """Return the value in the form of that alternative."""
        fitting = (part for part in self.parts if matches(value, part.schema))
        # A value that was cut off matches none.
        alike = (part for part in self.parts if is_kind(part.schema.get("type", "null"), value))
        part = next(fitting, None) or next(alike, None)
        return value if part is None else part.restore(value)


@dataclass(frozen=True, slots=True)
class Items:
    """Converts each item of a list back."""

    item: Part

    def __call__(self, value: object) -> object:
        """Return the list with each item in its own form."""
        return [self.item.restore(one) for one in value] if isinstance(value, list) else value


@dataclass(frozen=True, slots=True)
class Properties:
    """Converts each property of an object back, and removes the omitted ones."""

    parts: Mapping[str, Part]
    optional: set[str]

    def __call__(self, value: object) -> object:
        """Return the object in the form of the original schema."""
        if not isinstance(value, dict):
            return value
        return {
            name: self.parts[name].restore(item) if name in self.parts else item
            for name, item in value.items()
            if item is not None or name not in self.optional
        }


def unchanged(value: object) -> object:
    """Return a value that has the same form in both schemas."""
    return value


def _parsed(value: object) -> object:
    if isinstance(value, str):
        with suppress(ValueError, RecursionError):
            return json.loads(value)
    return value


def json_string(schema: object) -> Part:
    """Return the part for a value that can only be a string of JSON."""
    described = schema.get("description", "") if isinstance(schema, Mapping) else ""
    return Part({"type": "string", "description": f"{described} {_AS_JSON}".lstrip()}, _parsed)


def nullable(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a property that may be omitted."""
    return {"anyOf": [schema, NULL]}


def allows_null(schema: Mapping[str, Any]) -> bool:
    """Return whether a converted schema accepts null."""
    return schema.get("type") == "null" or any(allows_null(branch) for branch in schema.get("anyOf", ()))


def is_kind(kind: str, value: object) -> bool:
    """Return whether a value is of a type of JSON Schema."""
    return isinstance(value, _KINDS[kind]) and (kind == "boolean" or not isinstance(value, bool))

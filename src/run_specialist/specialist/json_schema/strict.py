"""Make a JSON Schema fit for constrained decoding, and turn the values that a model then writes back.

The vendors accept a part of JSON Schema only: every object is closed and requires all of its properties, and nothing is
recursive, open or bounded. `strict` expresses a schema in that part, and `restored` undoes what that did to a value:

    optional property                 required, and may be null          null is removed
    anything that cannot be closed    a string that contains JSON        the string is parsed
    bounds, patterns, formats         omitted                            whoever reads the value validates it
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

_SCALARS = frozenset({"string", "number", "integer", "boolean", "null"})
_NULL = {"type": "null"}
_AS_JSON = "As JSON in a string."


class _NotExpressible(Exception):
    """The schema is recursive, or accepts properties that it does not name."""


def strict(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema for constrained decoding, of which every value can be turned back by `restored`.

    schema: an object's schema; references are local and resolve.
    """
    return _Strict(schema).of(schema, ())


def restored(value: object, schema: Mapping[str, Any]) -> object:
    """Return a value that matches `strict(schema)` in the form that `schema` describes; any other value unchanged."""
    return _Strict(schema).restore(value, schema, ())


class _Strict:
    """Converts the parts of one schema, whose references all parts share."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root

    def of(self, schema: object, above: tuple[str, ...]) -> dict[str, Any]:
        """Return the converted schema.

        above: the references that lead here; one that repeats is recursive.
        """
        try:
            return self._convert(schema, above)
        except _NotExpressible:
            described = str(schema.get("description", "")) if isinstance(schema, Mapping) else ""
            return {"type": "string", "description": f"{described} {_AS_JSON}".lstrip()}

    def _convert(self, schema: object, above: tuple[str, ...]) -> dict[str, Any]:
        schema, above = self._resolved(schema, above)
        kept = {"description": schema["description"]} if "description" in schema else {}
        if "const" in schema or "enum" in schema:
            return {**kept, "enum": [*_values(schema)]}
        if branches := _branches(schema):
            return {**kept, "anyOf": [self._convert(branch, above) for branch in branches]}
        match schema.get("type"):
            case str(kind) if kind in _SCALARS:
                return {**kept, "type": kind}
            case "array" if isinstance(schema.get("items"), Mapping) and "prefixItems" not in schema:
                return {**kept, "type": "array", "items": self.of(schema["items"], above)}
            case "object" if schema.get("properties") or schema.get("additionalProperties") is False:
                return {**kept, **self._closed(schema, above)}
            case _:
                raise _NotExpressible

    def _closed(self, schema: Mapping[str, Any], above: tuple[str, ...]) -> dict[str, Any]:
        properties, required = schema.get("properties", {}), schema.get("required", ())
        converted = {name: self.of(part, above) for name, part in properties.items()}
        return {
            "type": "object",
            "properties": {
                name: part if name in required or _allows_null(part) else _nullable(part)
                for name, part in converted.items()
            },
            "required": [*properties],
            "additionalProperties": False,
        }

    def restore(self, value: object, schema: object, above: tuple[str, ...]) -> object:
        """Return the value in the form that `schema` describes."""
        try:
            self._convert(schema, above)
        except _NotExpressible:
            return _parsed(value)
        schema, above = self._resolved(schema, above)
        if isinstance(value, dict) and "properties" in schema:
            return self._restored_object(value, schema, above)
        if isinstance(value, list) and isinstance(schema.get("items"), Mapping):
            return [self.restore(item, schema["items"], above) for item in value]
        for branch in _branches(schema):
            if isinstance(value, dict | list) and _may_be(value, self._resolved(branch, above)[0]):
                return self.restore(value, branch, above)
        return value

    def _restored_object(
        self, value: Mapping[str, Any], schema: Mapping[str, Any], above: tuple[str, ...]
    ) -> dict[str, Any]:
        properties, required = schema["properties"], schema.get("required", ())
        was_omitted = {
            name
            for name, part in properties.items()
            if value.get(name) is None and name not in required and not _allows_null(self.of(part, above))
        }
        return {
            name: self.restore(item, properties[name], above) if name in properties else item
            for name, item in value.items()
            if name not in was_omitted
        }

    def _resolved(self, schema: object, above: tuple[str, ...]) -> tuple[Mapping[str, Any], tuple[str, ...]]:
        """Return the schema that a reference or a single `allOf` stands for, with the references that lead to it."""
        while isinstance(schema, Mapping):
            match schema:
                case {"$ref": str(pointer)}:
                    if pointer in above or not pointer.startswith("#"):
                        raise _NotExpressible
                    above = (*above, pointer)
                    schema = {**_at(self._root, pointer), **_without(schema, "$ref")}
                case {"allOf": [Mapping() as only]}:
                    schema = {**only, **_without(schema, "allOf")}
                case _:
                    return schema, above
        raise _NotExpressible


def _branches(schema: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the alternatives of a schema; empty if it has none."""
    for key in ("anyOf", "oneOf"):
        if isinstance(schema.get(key), list):
            return list(schema[key])
    kinds = schema.get("type")
    return [{**schema, "type": kind} for kind in kinds] if isinstance(kinds, list) else []


def _values(schema: Mapping[str, Any]) -> list[object]:
    values = [schema["const"]] if "const" in schema else list(schema["enum"])
    if any(isinstance(value, dict | list) for value in values):
        raise _NotExpressible
    return values


def _nullable(schema: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [schema, _NULL]}


def _allows_null(schema: Mapping[str, Any]) -> bool:
    """Return whether a converted schema accepts null."""
    return (
        schema.get("type") == "null"
        or None in schema.get("enum", ())
        or any(_allows_null(branch) for branch in schema.get("anyOf", ()))
    )


def _may_be(value: object, schema: Mapping[str, Any]) -> bool:
    """Return whether an object or a list may belong to a branch: the names of its properties tell objects apart."""
    if isinstance(value, list):
        return "items" in schema
    return isinstance(value, dict) and value.keys() == schema.get("properties", {}).keys()


def _parsed(value: object) -> object:
    if isinstance(value, str):
        with suppress(ValueError, RecursionError):
            return json.loads(value)
    return value


def _at(root: Mapping[str, Any], pointer: str) -> Mapping[str, Any]:
    """Return the part of a schema that a JSON pointer such as `#/$defs/item` names."""
    part: Any = root
    for escaped in pointer.split("/")[1:]:
        name = escaped.replace("~1", "/").replace("~0", "~")
        part = part.get(name) if isinstance(part, Mapping) else None
    if not isinstance(part, Mapping):
        raise _NotExpressible
    return part


def _without(schema: Mapping[str, Any], key: str) -> dict[str, Any]:
    return {name: part for name, part in schema.items() if name != key}

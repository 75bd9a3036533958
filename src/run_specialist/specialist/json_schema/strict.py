"""Adapt a JSON Schema for constrained decoding, and convert the values of the model back.

The vendors accept only a part of JSON Schema: every object is closed and requires all of its properties, and nothing is
recursive, open or bounded. `strict` expresses a schema in that part, and `restored` converts a value back:

optional property                 required, and may be null          null is removed
anything that cannot be closed    a string that contains JSON        the string is parsed
bounds, patterns, formats         omitted                            validated by the reader of the value

A schema may come from an untrusted server, so the work is bounded: parts that are too deep or too large also become
strings that contain JSON.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from run_specialist.specialist.json_schema.references import target
from run_specialist.specialist.json_schema.strict_parts import (
    NULL,
    SCALARS,
    Alternatives,
    Items,
    Part,
    Properties,
    allows_null,
    is_kind,
    json_string,
    nullable,
    unchanged,
)

MOST_PARTS = 3_000
"""Maximum number of properties, values and other parts that are converted, including those of references."""
DEEPEST = 20
"""Maximum nesting; an object has two levels: the vendors allow ten nested objects."""

_ANNOTATIONS = frozenset(
    {
        *("$anchor", "$comment", "$defs", "$id", "$schema", "default", "definitions", "deprecated", "description"),
        *("discriminator", "example", "examples", "readOnly", "title", "writeOnly"),
    }
)
"""Keywords allowed beside a reference or alternatives, because they do not restrict values."""


class _NotExpressible(Exception):
    """The schema is recursive, accepts properties that it does not name, or is not a valid schema."""


class _TooLarge(Exception):
    """The schema has too many parts."""


@dataclass(frozen=True, slots=True)
class _SchemaPosition:
    """The position of a part in the schema."""

    references: tuple[str, ...] = ()
    """The references on the path; a repeated one is recursive."""
    depth: int = 0

    def below(self) -> "_SchemaPosition":
        if self.depth == DEEPEST:
            raise _NotExpressible
        return _SchemaPosition(self.references, self.depth + 1)


def strict(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema for constrained decoding whose values `restored` can convert back."""
    return _Converter(schema).convert().schema


def restored(value: object, schema: Mapping[str, Any]) -> object:
    """Return a value that matches `strict(schema)` in the form that `schema` describes.

    A value that does not match is converted back as far as possible.
    """
    return _Converter(schema).convert().restore(value)


class _Converter:
    """Converts one schema, whose references all of its parts share."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._left = MOST_PARTS

    def convert(self) -> Part:
        """Return the whole schema; if it is too large, with each large property as JSON in a string."""
        try:
            return self._part(self._root, _SchemaPosition())
        except _TooLarge:
            pass
        properties = self._root.get("properties")
        if not isinstance(properties, Mapping) or not 0 < len(properties) < MOST_PARTS:
            return json_string(self._root)
        try:
            return self._closed(self._root, _SchemaPosition(), MOST_PARTS // len(properties))
        except _NotExpressible:
            return json_string(self._root)

    def _part(self, schema: object, place: _SchemaPosition) -> Part:
        try:
            return self._expressed(schema, place)
        except _NotExpressible:
            return json_string(schema)

    def _expressed(self, schema: object, place: _SchemaPosition) -> Part:
        schema, place = self._resolved(schema, place.below())
        kept = {"description": schema["description"]} if isinstance(schema.get("description"), str) else {}
        if "const" in schema or "enum" in schema:
            return Part({**kept, **self._constants(schema)}, unchanged)
        branches = _branches(schema)
        if branches is not None:
            parts = [self._expressed(branch, place) for branch in branches]
            return Part({**kept, "anyOf": [part.schema for part in parts]}, Alternatives(parts))
        match schema.get("type"):
            case str(kind) if kind in SCALARS:
                return Part({**kept, "type": kind}, unchanged)
            case "array" if isinstance(schema.get("items"), Mapping) and "prefixItems" not in schema:
                item = self._part(schema["items"], place)
                return Part({**kept, "type": "array", "items": item.schema}, Items(item))
            case "object" if schema.get("properties") or schema.get("additionalProperties") is False:
                part = self._closed(schema, place)
                return Part({**kept, **part.schema}, part.restore)
            case _:
                raise _NotExpressible

    def _closed(self, schema: Mapping[str, Any], place: _SchemaPosition, parts_each: int | None = None) -> Part:
        """Return an object that requires all of its properties.

        parts_each: maximum number of parts of each property before it becomes JSON; None = share what is left.
        """
        properties, names = schema.get("properties", {}), schema.get("required", [])
        if not isinstance(properties, Mapping) or not isinstance(names, list):
            raise _NotExpressible
        required = {name for name in names if isinstance(name, str)}
        if required - properties.keys():
            raise _NotExpressible
        place = place.below()
        parts = {}
        for name, part in properties.items():
            self._left = self._left if parts_each is None else parts_each
            try:
                parts[name] = self._part(part, place)
            except _TooLarge:
                if parts_each is None:
                    raise
                parts[name] = json_string(part)
        optional = {name for name in parts if name not in required and not allows_null(parts[name].schema)}
        closed = {
            "type": "object",
            "properties": {
                name: nullable(part.schema) if name in optional else part.schema for name, part in parts.items()
            },
            "required": [*parts],
            "additionalProperties": False,
        }
        return Part(closed, Properties(parts, optional))

    def _resolved(self, schema: object, place: _SchemaPosition) -> tuple[Mapping[str, Any], _SchemaPosition]:
        """Return the schema that a reference or a single `allOf` names, with the references that lead to it."""
        while isinstance(schema, Mapping):
            self._left -= 1 + len(schema) // 16
            if self._left < 0:
                raise _TooLarge
            match schema:
                case {"$ref": str(pointer)}:
                    named = target(self._root, pointer)
                    if named is None or pointer in place.references:
                        raise _NotExpressible
                    place = _SchemaPosition((*place.references, pointer), place.depth)
                    schema = {**named, **_annotations(schema, "$ref")}
                case {"allOf": [Mapping() as only]}:
                    schema = {**only, **_annotations(schema, "allOf")}
                case _:
                    return schema, place
        raise _NotExpressible

    def _constants(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        """Return the schema of listed values, with one alternative per type, because the vendors require a type."""
        values = [schema["const"]] if "const" in schema else schema["enum"]
        if not isinstance(values, list):
            raise _NotExpressible
        self._left -= len(values)
        if self._left < 0:
            raise _TooLarge
        declared = schema.get("type", [*SCALARS])
        declared = declared if isinstance(declared, list) else [declared]
        by_kind: dict[str, list[object]] = {}
        for value in values:
            kind = next((kind for kind in SCALARS if is_kind(kind, value)), None)
            if kind is None:
                raise _NotExpressible
            if kind in declared or (kind == "integer" and "number" in declared):
                same = by_kind.setdefault(kind, [])
                if value not in same:
                    same.append(value)
        alternatives = [
            dict(NULL) if kind == "null" else {"type": kind, "enum": same} for kind, same in by_kind.items()
        ]
        if not alternatives:
            raise _NotExpressible
        return alternatives[0] if len(alternatives) == 1 else {"anyOf": alternatives}


def _branches(schema: Mapping[str, Any]) -> Iterable[object] | None:
    """Return the alternatives of a schema; None if it has none."""
    for key in ("anyOf", "oneOf"):
        if schema.get(key):
            if not isinstance(schema[key], list):
                raise _NotExpressible
            _annotations(schema, key)
            return list(schema[key])
    kinds = schema.get("type")
    if not isinstance(kinds, list) or not kinds:
        return None
    own = {name: part for name, part in schema.items() if name != "description"}
    return [{**own, "type": kind} for kind in kinds]


def _annotations(schema: Mapping[str, Any], key: str) -> dict[str, Any]:
    """Return the annotations beside a reference or alternatives; raise if any keyword there restricts values."""
    beside = {name: part for name, part in schema.items() if name != key}
    if beside.keys() - _ANNOTATIONS:
        raise _NotExpressible
    return beside

"""Read an `output_schema`, embed it in the answer, and adapt it to constrained decoding."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from run_specialist.errors import UsageError
from run_specialist.specialist import schema_checks
from run_specialist.specialist.positions import LONGEST, read
from run_specialist.specialist.problems import shown
from run_specialist.specialist.schema_checks import target

_REFERENCES = frozenset({"$ref", "$dynamicRef"})
# Their values are data, in which a `$ref` is not a reference.
_DATA = frozenset({"const", "enum", "default", "examples"})


@dataclass(frozen=True)
class AnswerSchema:
    """JSON Schema for answers; use `load` to create it, which checks the schema."""

    schema: Mapping[str, Any]
    """The schema as given; `{}` for `true`."""

    @classmethod
    def load(cls, value: Mapping[str, Any] | str, folder: Path, project: Path | None = None) -> Self:
        """Check a schema given as a value, or load and check one from a JSON or YAML file.

        value: The schema, or the path of its file.
        folder: Folder that relative paths are resolved against.
        project: Folder that the path must stay in, `..` and symlinks resolved; None to allow any path.
        Raises ValueError with the problem and its place in the schema.
        """
        path = folder / value if isinstance(value, str) else None
        try:
            return cls(schema_checks.check(plain(value if path is None else read(path, project).value)))
        except UsageError as error:
            raise ValueError(str(error)) from None
        except ValueError as error:
            raise ValueError(str(error) if path is None else f"{shown(str(path), None)}: {error}") from None

    def reason(self, value: object) -> str | None:
        """Return None for a valid value, otherwise one line with up to three errors and their places.

        value: JSON value as Python types.
        """
        return schema_checks.reason(value, self.schema)

    def embedded(self, pointer: str) -> Mapping[str, Any] | None:
        """Return the schema for embedding in a JSON Schema 2020-12; None if that is not possible.

        pointer: JSON pointer to its new place, such as `/properties/answer`; local references are rewritten to it.
        """
        own = {key: item for key, item in self.schema.items() if key not in ("$schema", "$id")}
        moved = outer = _moved(own, pointer)
        for name in reversed(pointer.split("/")[1:]):
            outer = {name: outer}
        with suppress(ValueError):
            schema_checks.check(outer)
            return moved  # type: ignore[no-any-return] # a map, as `own` is
        return None


def _moved(part: object, pointer: str) -> Any:  # noqa: ANN401 - any JSON
    """Return a part of a schema with its local references rewritten to its new place."""
    if isinstance(part, list):
        return [_moved(item, pointer) for item in part]
    # References in a subschema with an `$id` are relative to that subschema.
    if not isinstance(part, dict) or isinstance(part.get("$id"), str):
        return part
    moved: dict[str, Any] = {}
    for key, value in part.items():
        if key in _REFERENCES and isinstance(value, str):
            # An anchor, `#name`, does not depend on the place.
            moved[key] = f"#{pointer}{value[1:]}" if value == "#" or value.startswith("#/") else value
        else:
            moved[key] = value if key in _DATA and not isinstance(value, dict) else _moved(value, pointer)
    return moved


def plain(value: object) -> object:
    """Return a copy of a value as JSON types; raises ValueError if JSON cannot represent it or it is too large."""
    try:
        text = json.dumps(value, allow_nan=False)
    except RecursionError:
        raise ValueError("is nested too deeply") from None
    except (TypeError, ValueError) as error:
        raise ValueError(f"contains a value that JSON cannot represent: {shown(str(error), 200)}") from None
    if len(text) > LONGEST:
        raise ValueError(f"is longer than {LONGEST:,} characters")
    return json.loads(text)


SCALARS = ("string", "boolean", "integer", "number", "null")
"""Types that contain no other values; integer comes before number."""
NULL = {"type": "null"}
_AS_JSON = "As JSON in a string."


@dataclass(frozen=True, slots=True)
class Part:
    """A converted part of a schema."""

    schema: dict[str, Any]
    restore: Callable[[Any], object] = lambda value: value
    """Converts a value back, as far as possible even if it does not match the converted schema."""


def matches(value: object, schema: Mapping[str, Any]) -> bool:
    """Return whether a value matches a schema for constrained decoding."""
    return schema_checks.reason(value, schema) is None


def _json_string(schema: object) -> Part:
    """Return the part for a value that can only be a string of JSON."""

    def parsed(value: object) -> object:
        if isinstance(value, str):
            with suppress(ValueError, RecursionError):
                return json.loads(value)
        return value

    described = schema.get("description", "") if isinstance(schema, Mapping) else ""
    return Part({"type": "string", "description": f"{described} {_AS_JSON}".lstrip()}, parsed)


def _alternatives(parts: list[Part]) -> Part:
    def restore(value: object) -> object:
        fitting = (part for part in parts if matches(value, part.schema))
        # A value that was cut off matches none.
        alike = (part for part in parts if _is_kind(part.schema.get("type", "null"), value))
        part = next(fitting, None) or next(alike, None)
        return value if part is None else part.restore(value)

    return Part({"anyOf": [part.schema for part in parts]}, restore)


def _allows_null(schema: Mapping[str, Any]) -> bool:
    return schema.get("type") == "null" or any(_allows_null(branch) for branch in schema.get("anyOf", ()))


def _is_kind(kind: str, value: object) -> bool:
    from jsonschema import Draft202012Validator  # noqa: PLC0415 - heavy, and needed for few schemas

    return bool(Draft202012Validator.TYPE_CHECKER.is_type(value, kind))


# Adapt a JSON Schema for constrained decoding, and convert the values of the model back.
#
# The vendors accept only a part of JSON Schema: every object is closed and requires all of its properties, and nothing
# is recursive, open or bounded. `strict` expresses a schema in that part, and `restored` converts a value back:
#
# optional property                 required, and may be null          null is removed
# anything that cannot be closed    a string that contains JSON        the string is parsed
# bounds, patterns, formats         omitted                            validated by the reader of the value
#
# A schema may come from an untrusted server, so the work is bounded: parts that are too deep or too large also become
# strings that contain JSON.

MOST_PARTS = 3_000
"""Maximum number of properties, values and other parts that are converted, including those of references."""
DEEPEST = 20
"""Maximum nesting."""
# Levels of an object: the vendors allow ten nested ones.
_OBJECT_DEPTH = 2

# Keywords allowed beside a reference or alternatives, because they do not restrict values.
_ANNOTATIONS = frozenset(
    {
        *("$anchor", "$comment", "$defs", "$id", "$schema", "default", "definitions", "deprecated", "description"),
        *("discriminator", "example", "examples", "readOnly", "title", "writeOnly"),
    }
)


class _NotExpressible(Exception):
    """The schema is recursive, too large or too deep, accepts properties that it does not name, or is invalid."""


def strict(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema for constrained decoding whose values `restored` can convert back."""
    return _Converter(schema).convert().schema


def restored(value: object, schema: Mapping[str, Any]) -> object:
    """Return a value that matches `strict(schema)` in the form that `schema` describes.

    A value that does not match is converted back as far as possible.
    """
    return _Converter(schema).convert().restore(value)


class _Converter:
    """Converts one schema, whose references all of its parts share.

    `references` are those on the way to a part, where a repeated one is recursive.
    """

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._left = self._share = MOST_PARTS

    def convert(self) -> Part:
        """Return the whole schema, in which each property has an equal share of the possible parts."""
        with suppress(_NotExpressible):
            return self._expressed(self._root, (), 0)
        return _json_string(self._root)

    def _part(self, schema: object, references: tuple[str, ...], depth: int) -> Part:
        is_of_root = depth == _OBJECT_DEPTH
        self._left = self._share if is_of_root else self._left
        try:
            return self._expressed(schema, references, depth)
        except _NotExpressible:
            if self._left < 0 and not is_of_root:
                raise
            return _json_string(schema)

    def _expressed(self, schema: object, references: tuple[str, ...], depth: int) -> Part:
        if depth >= DEEPEST:
            raise _NotExpressible
        schema, references = self._resolved(schema, references)
        if "const" in schema or "enum" in schema:
            part = Part(self._constants(schema))
        elif (branches := _branches(schema)) is not None:
            part = _alternatives([self._expressed(branch, references, depth + 1) for branch in branches])
        else:
            match schema.get("type"):
                case str(kind) if kind in SCALARS:
                    part = Part({"type": kind})
                case "array" if isinstance(schema.get("items"), Mapping) and "prefixItems" not in schema:
                    item = self._part(schema["items"], references, depth + 1)
                    part = Part(
                        {"type": "array", "items": item.schema},
                        lambda value: [item.restore(one) for one in value] if isinstance(value, list) else value,
                    )
                case "object" if schema.get("properties") or schema.get("additionalProperties") is False:
                    part = self._closed(schema, references, depth + _OBJECT_DEPTH)
                case _:
                    raise _NotExpressible
        kept = {"description": schema["description"]} if isinstance(schema.get("description"), str) else {}
        return Part({**kept, **part.schema}, part.restore)

    def _closed(self, schema: Mapping[str, Any], references: tuple[str, ...], depth: int) -> Part:
        """Return an object that requires all of its properties."""
        properties, names = schema.get("properties", {}), schema.get("required", [])
        if not isinstance(properties, Mapping) or not isinstance(names, list):
            raise _NotExpressible
        required = {name for name in names if isinstance(name, str)}
        if required - properties.keys() or len(properties) > self._left:
            raise _NotExpressible
        if schema is self._root:
            self._share = MOST_PARTS // max(1, len(properties))
        parts = {name: self._part(part, references, depth) for name, part in properties.items()}
        optional = {name for name in parts if name not in required and not _allows_null(parts[name].schema)}

        def restore(value: object) -> object:
            if not isinstance(value, dict):
                return value
            return {
                name: parts[name].restore(item) if name in parts else item
                for name, item in value.items()
                if item is not None or name not in optional
            }

        converted = {
            name: {"anyOf": [part.schema, NULL]} if name in optional else part.schema for name, part in parts.items()
        }
        closed = {"type": "object", "properties": converted, "required": [*parts], "additionalProperties": False}
        return Part(closed, restore)

    def _resolved(self, schema: object, references: tuple[str, ...]) -> tuple[Mapping[str, Any], tuple[str, ...]]:
        """Return the schema that a reference or a single `allOf` names, with the references that lead to it."""
        while isinstance(schema, Mapping):
            self._spend(1 + len(schema) // 16)
            match schema:
                case {"$ref": str(pointer)}:
                    named = target(self._root, pointer)
                    if named is None or pointer in references:
                        raise _NotExpressible
                    references = (*references, pointer)
                    schema = {**named, **_annotations(schema, "$ref")}
                case {"allOf": [Mapping() as only]}:
                    schema = {**only, **_annotations(schema, "allOf")}
                case _:
                    return schema, references
        raise _NotExpressible

    def _spend(self, parts: int) -> None:
        self._left -= parts
        if self._left < 0:
            raise _NotExpressible

    def _constants(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        """Return the schema of listed values, with one alternative per type, because the vendors require a type."""
        values = [schema["const"]] if "const" in schema else schema["enum"]
        if not isinstance(values, list):
            raise _NotExpressible
        self._spend(len(values))
        declared = schema.get("type", [*SCALARS])
        declared = declared if isinstance(declared, list) else [declared]
        by_kind: dict[str, list[object]] = {}
        for value in values:
            kind = next((kind for kind in SCALARS if _is_kind(kind, value)), None)
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


NEEDS_QUOTES = (
    "require needs quotes, and output_schema has no `evidence` array of objects with `source` and `quote`; add one, or "
    "set evidence to check"
)


def has_quotes(schema: Mapping[str, Any]) -> bool:
    """Return whether a schema has a property `evidence` and an object with `source` and `quote`, at any place."""
    named = [part["properties"].keys() for part in _maps(schema) if isinstance(part.get("properties"), Mapping)]
    return any("evidence" in names for names in named) and any({"source", "quote"} <= names for names in named)


def _maps(part: object) -> Iterator[Mapping[str, Any]]:
    if isinstance(part, Mapping):
        yield part
    for inner in part.values() if isinstance(part, Mapping) else part if isinstance(part, list) else ():
        yield from _maps(inner)

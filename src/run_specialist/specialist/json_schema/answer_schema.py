"""The `output_schema` of a specialist: load it, validate answers, embed it in another schema."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from run_specialist.specialist.json_schema import schema_checks
from run_specialist.specialist.json_schema.schema_file import plain, read
from run_specialist.specialist.problems import shown

# Their values are data, in which a `$ref` is not a reference.
_DATA = frozenset({"const", "enum", "default", "examples"})
# The keys of their values are names chosen by the author, not keywords.
_BY_NAME = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"})
_REFERENCES = frozenset({"$ref", "$dynamicRef"})


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
        if not isinstance(value, str):
            return cls._checked(plain(value))
        path = folder / value
        schema = read(path, project)
        try:
            return cls._checked(schema)
        except ValueError as error:
            raise ValueError(f"{shown(str(path), None)}: {error}") from None

    @classmethod
    def _checked(cls, schema: object) -> Self:
        if schema is True:
            schema = {}
        if schema is False:
            raise ValueError("is false, which no answer can match")
        if not isinstance(schema, dict):
            raise ValueError("must be a JSON Schema, which is a map")  # noqa: TRY004 - bad input, not a bad call
        schema_checks.check(schema)
        return cls(schema)

    def reason(self, value: object) -> str | None:
        """Return None for a valid value, otherwise one line with up to three errors and their places.

        value: JSON value as Python types.
        """
        return schema_checks.reason(value, self.schema)

    def embedded(self, pointer: str) -> Mapping[str, Any] | None:
        """Return the schema for embedding in a JSON Schema 2020-12; None if that is not possible.

        pointer: JSON pointer to its new place, such as `/properties/answer`; local references are rewritten to it.
        """
        own = {key: item for key, item in self.schema.items() if key != "$schema"}
        moved = _moved({key: item for key, item in own.items() if key != "$id"}, pointer)
        # With its `$id` the schema is a separate resource, so its references need no change.
        candidates = (moved, own) if "$id" in own else (moved,)
        return next((one for one in candidates if _is_valid_at(pointer, one)), None)


def _is_valid_at(pointer: str, schema: Mapping[str, Any]) -> bool:
    """Return whether a schema is valid at its place inside another one."""
    outer = schema
    for name in reversed(pointer.split("/")[1:]):
        outer = {name: outer}
    try:
        schema_checks.check(outer)
    except ValueError:
        return False
    return True


def _moved(schema: Mapping[str, Any], pointer: str) -> dict[str, Any]:
    """Return a schema with its local references rewritten to its new place."""
    return {key: _moved_value(key, value, pointer) for key, value in schema.items()}


def _moved_value(key: str, value: object, pointer: str) -> object:
    if key in _REFERENCES and isinstance(value, str):
        # An anchor, `#name`, does not depend on the place.
        return f"#{pointer}{value[1:]}" if value == "#" or value.startswith("#/") else value
    if key in _DATA:
        return value
    if key in _BY_NAME and isinstance(value, dict):
        return {name: _moved_part(part, pointer) for name, part in value.items()}
    return _moved_part(value, pointer)


def _moved_part(part: object, pointer: str) -> object:
    if isinstance(part, list):
        return [_moved_part(item, pointer) for item in part]
    # References in a subschema with an `$id` are relative to that subschema.
    return _moved(part, pointer) if isinstance(part, dict) and not isinstance(part.get("$id"), str) else part

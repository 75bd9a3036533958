"""The shape that an answer must have: the `output_schema` of a specialist."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from run_specialist.specialist.json_schema import schema_checks
from run_specialist.specialist.json_schema.schema_file import plain, read
from run_specialist.specialist.problems import shown

# Their values are data: what looks like a reference in there is none.
_DATA = frozenset({"const", "enum", "default", "examples"})
# The keys in their values are names that the author chose, not keywords.
_BY_NAME = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"})
_REFERENCES = frozenset({"$ref", "$dynamicRef"})


@dataclass(frozen=True)
class AnswerSchema:
    """A JSON Schema that answers are held against; `load` makes it and checks it."""

    schema: Mapping[str, Any]
    """As it was given; `{}` for `true`."""

    @classmethod
    def load(cls, value: Mapping[str, Any] | str, folder: Path, project: Path | None = None) -> Self:
        """Check a schema, or the one in a JSON or YAML file.

        value: the schema itself, or the path of its file.
        folder: where a relative path starts.
        project: what the path must not leave, by `..` or by a link; None to allow any path.
        Raises ValueError with one clause: what is wrong, and where in the schema.
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
            raise ValueError("wanted a JSON Schema, which is a map")  # noqa: TRY004 - bad input, not a bad call
        schema_checks.check(schema)
        return cls(schema)

    def reason(self, value: object) -> str | None:
        """Return None for a value that matches, else one line that names up to three places and what is wrong there.

        value: JSON as Python holds it.
        """
        return schema_checks.reason(value, self.schema)

    def embedded(self, pointer: str) -> Mapping[str, Any] | None:
        """Return the schema as it is to stand at a pointer inside a JSON Schema 2020-12; None where it cannot.

        pointer: like `/properties/answer`; references into the schema itself are led there.
        """
        own = {key: item for key, item in self.schema.items() if key != "$schema"}
        moved = _moved({key: item for key, item in own.items() if key != "$id"}, pointer)
        # Where the `$id` is needed, it makes the schema a resource of its own, in which nothing has to change.
        candidates = (moved, own) if "$id" in own else (moved,)
        return next((one for one in candidates if _stands(one, pointer)), None)


def _stands(schema: Mapping[str, Any], pointer: str) -> bool:
    """Tell whether a schema is sound where it stands in another one."""
    whole = schema
    for name in reversed(pointer.split("/")[1:]):
        whole = {name: whole}
    try:
        schema_checks.check(whole)
    except ValueError:
        return False
    return True


def _moved(schema: Mapping[str, Any], pointer: str) -> dict[str, Any]:
    """Return a schema with its local references led to where it stands now."""
    return {key: _moved_value(key, value, pointer) for key, value in schema.items()}


def _moved_value(key: str, value: object, pointer: str) -> object:
    if key in _REFERENCES and isinstance(value, str):
        # An anchor, `#name`, is found wherever it stands.
        return f"#{pointer}{value[1:]}" if value == "#" or value.startswith("#/") else value
    if key in _DATA:
        return value
    if key in _BY_NAME and isinstance(value, dict):
        return {name: _moved_part(part, pointer) for name, part in value.items()}
    return _moved_part(value, pointer)


def _moved_part(part: object, pointer: str) -> object:
    if isinstance(part, list):
        return [_moved_part(item, pointer) for item in part]
    # With an `$id` it is a resource of its own: its references start there.
    return _moved(part, pointer) if isinstance(part, dict) and not isinstance(part.get("$id"), str) else part

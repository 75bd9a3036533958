"""Check whether a schema allows quotes: an `evidence` array of objects with `source` and `quote`."""

from collections.abc import Iterator, Mapping
from typing import Any

from run_specialist.specialist.json_schema.references import target

NEEDS_QUOTES = (
    "require needs quotes, and output_schema has no `evidence` array of objects with `source` and `quote`; add one, or "
    "set evidence to check"
)
_MOST_REFERENCES = 20
"""Maximum number of references that are followed in a row."""


def has_quotes(schema: Mapping[str, Any]) -> bool:
    """Return whether an object schema has such an array; local references and alternatives are followed."""
    return any(
        _has_properties(item, {"source", "quote"})
        for whole in _variants(schema, schema)
        for array in _variants(_property(whole, "evidence"), schema)
        for item in _variants(array.get("items"), schema)
    )


def _has_properties(schema: Mapping[str, Any], names: set[str]) -> bool:
    properties = schema.get("properties")
    return isinstance(properties, Mapping) and names <= properties.keys()


def _property(schema: Mapping[str, Any], name: str) -> object:
    properties = schema.get("properties")
    return properties.get(name) if isinstance(properties, Mapping) else None


def _variants(schema: object, root: Mapping[str, Any], references: int = 0) -> Iterator[Mapping[str, Any]]:
    """Yield a schema, and every schema that it refers to or combines."""
    if not isinstance(schema, Mapping) or references > _MOST_REFERENCES:
        return
    yield schema
    if isinstance(pointer := schema.get("$ref"), str):
        yield from _variants(target(root, pointer), root, references + 1)
    for key in ("anyOf", "oneOf", "allOf"):
        branches = schema.get(key)
        for branch in branches if isinstance(branches, list) else ():
            yield from _variants(branch, root, references + 1)

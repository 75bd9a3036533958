"""The rules of structured outputs that both APIs share, and values that obey a schema."""

from collections.abc import Iterator, Mapping
from typing import Any

KINDS = ("string", "number", "integer", "boolean", "null", "array", "object")
KEYWORDS = {
    *("type", "enum", "const", "anyOf", "properties", "required", "additionalProperties", "items"),
    *("$ref", "$defs", "definitions", "description", "title"),
}
"""Keywords that both vendors accept; each accepts a few more, and not the same ones."""
BOUNDS = {
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength"),
    *("pattern", "minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties"),
}
DEEPEST = 10
"""Objects inside one another."""
MOST_PROPERTIES = 5_000
MOST_VALUES = 1_000

Schema = Mapping[str, Any]
Found = Iterator[tuple[str, Schema]]


def parts(schema: Any, where: str = "") -> Found:
    """Yield (path, part) of a schema, definitions included; a part that is not an object is yielded unchanged."""
    yield where, schema
    if not isinstance(schema, Mapping):
        return
    for key in ("properties", "$defs", "definitions"):
        for name, part in schema.get(key, {}).items():
            yield from parts(part, f"{where}.{key}.{name}")
    for number, part in enumerate(schema.get("anyOf", ())):
        yield from parts(part, f"{where}.anyOf.{number}")
    if "items" in schema:
        yield from parts(schema["items"], f"{where}.items")


def mistyped(schema: Schema) -> Iterator[str]:
    """Yield the parts without a type that the vendors know."""
    for where, part in parts(schema):
        if not isinstance(part, Mapping):
            yield f"{where}: {part!r} is not of type 'object', 'boolean'"
        elif not {"anyOf", "$ref"} & part.keys() and part.get("type") not in KINDS:
            yield f"{where}: schema must have a 'type' key"


def bounded(schema: Schema) -> Iterator[str]:
    """Yield the bounds of numbers, texts and lists."""
    for where, part in parts(schema):
        yield from (f"{where}: property '{key}' is not supported" for key in part.keys() & BOUNDS)


def unsupported(schema: Schema) -> Iterator[str]:
    """Yield the keywords that are not supported."""
    for where, part in parts(schema):
        yield from (f"{where}: '{key}' is not permitted" for key in sorted(part.keys() - KEYWORDS - BOUNDS))
        if part.get("type") == "array" and "items" not in part:
            yield f"{where}: array schema missing items"


def open_objects(schema: Schema) -> Iterator[str]:
    """Yield the objects that are not closed."""
    for where, part in parts(schema):
        if part.get("type") == "object" and part.get("additionalProperties") is not False:
            yield f"{where}: For 'object' type, 'additionalProperties' must be explicitly set to false"


def optional(schema: Schema) -> Iterator[str]:
    """Yield the objects that do not require all of their properties."""
    for where, part in parts(schema):
        if part.get("type") == "object" and set(part.get("required", ())) != part.get("properties", {}).keys():
            yield f"{where}: 'required' is required to be an array including every key in properties"


def complex_values(schema: Schema) -> Iterator[str]:
    """Yield the listed values that are not plain, or do not have their type."""
    for where, part in parts(schema):
        values = [*part.get("enum", ()), *([part["const"]] if "const" in part else [])]
        for value in values:
            if not obeys(value, {"type": part["type"]}) or isinstance(value, dict | list):
                yield f"{where}: enum value {value!r} does not match the declared type"


def recursive(schema: Schema, part: Any = None, above: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield the references that lead back to where they stand, or to nothing."""
    part = schema if part is None else part
    if "$ref" in part:
        pointer = part["$ref"]
        target = _at(schema, pointer)
        if target is None:
            yield f"{pointer}: reference can not be resolved"
        elif pointer in above:
            yield f"{pointer}: recursive schemas are not supported"
        else:
            yield from recursive(schema, target, (*above, pointer))
    below = [
        *part.get("properties", {}).values(),
        *part.get("anyOf", ()),
        *([part["items"]] if "items" in part else []),
    ]
    for one in below:
        yield from recursive(schema, one, above)


RULES = {
    "type": mistyped,
    "bounds": bounded,
    "keywords": unsupported,
    "closed": open_objects,
    "values": complex_values,
    "recursion": recursive,
}
"""What both vendors refuse, in the order of checking."""


def too_large(schema: Schema) -> Iterator[str]:
    """Yield what is more than the vendors compile."""
    properties = sum(len(part.get("properties", ())) for _, part in parts(schema))
    if properties > MOST_PROPERTIES:
        yield f"the schema has {properties} properties, more than {MOST_PROPERTIES}"
    values = sum(len(part.get("enum", ())) for _, part in parts(schema))
    if values > MOST_VALUES:
        yield f"the schema has {values} enum values, more than {MOST_VALUES}"
    levels = max(_levels(schema), 0)
    if levels > DEEPEST:
        yield f"{levels} levels of nesting exceeds limit of {DEEPEST}"


def _levels(schema: Schema) -> int:
    below = [*schema.get("properties", {}).values(), *schema.get("anyOf", ())]
    below += [schema["items"]] if "items" in schema else []
    return (schema.get("type") == "object") + max((_levels(part) for part in below), default=0)


def _at(schema: Schema, pointer: str) -> Any:
    part: Any = schema
    if not pointer.startswith("#"):
        return None
    for name in pointer.split("/")[1:]:
        part = part.get(name) if isinstance(part, Mapping) else None
    return part


def obeys(value: Any, schema: Schema) -> bool:
    """Tell whether a value has the shape of a schema that the rules accept; bounds and references are not looked at."""
    if "anyOf" in schema:
        return any(obeys(value, branch) for branch in schema["anyOf"])
    kinds = {"string": str, "number": (int, float), "integer": int, "boolean": bool, "array": list, "object": dict}
    kind = kinds.get(schema["type"], type(None))
    if not isinstance(value, kind) or (isinstance(value, bool) and schema["type"] != "boolean"):
        return False
    if "enum" in schema and value not in schema["enum"]:
        return False
    if isinstance(value, dict) and "properties" in schema:
        inner = schema["properties"]
        return value.keys() == inner.keys() and all(obeys(value[name], inner[name]) for name in inner)
    return not isinstance(value, list) or all(obeys(item, schema.get("items", {})) for item in value)


def written(schema: Schema, answer: str) -> Any:
    """Return the shortest value of a schema, as constrained decoding allows, with the answer in a plain `answer`."""
    if "anyOf" in schema:
        branches = schema["anyOf"]
        return None if {"type": "null"} in branches else written(branches[0], answer)
    if "enum" in schema:
        return schema["enum"][0]
    if schema["type"] == "object":
        return {
            name: answer if name == "answer" and part.get("type") == "string" else written(part, answer)
            for name, part in schema["properties"].items()
        }
    return {"string": "", "number": 0.5, "integer": 1, "boolean": True, "null": None, "array": []}[schema["type"]]

"""Bounded versions of slow JSON Schema keywords: those with patterns, and `uniqueItems`.

The library's versions match with an engine that backtracks, so that a pattern like `^(a+)+$` never ends, and compare
every pair of items. The error messages here are the same.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pydantic_core import SchemaError, SchemaValidator, core_schema

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError

Validator = Any
"""A validator of jsonschema; its protocol lacks `descend`, which every keyword needs."""
JsonSchema = Mapping[str, Any] | bool
"""A part of a schema that is itself a schema."""
Errors = Iterator["ValidationError"]
Keyword = Callable[[Validator, Any, Any, Mapping[str, Any]], Iterable["ValidationError"] | None]
"""The check of one keyword: validator, the keyword's value in the schema, the value to check, the enclosing schema."""

MOST_PATTERNS = 256
"""Size of the cache of compiled patterns; with more patterns in one schema, each match compiles its pattern again."""
UNSUPPORTED = ("look-around", "backreferences")
"""The engine's names for constructs that cannot be matched in linear time."""


def replaced(keywords: Mapping[str, Keyword]) -> dict[str, Keyword]:
    """Return a dialect's keywords with the slow ones replaced by the bounded versions."""
    return {name: _OURS.get(name, keyword) for name, keyword in keywords.items()}


def check_pattern(pattern: str) -> None:
    """Raise ValueError with one clause for a pattern that cannot be matched here."""
    try:
        _compiled(pattern)
    except SchemaError as error:
        why = str(error).splitlines()[-1].strip().removeprefix("error: ").removeprefix("SchemaError: ").rstrip(".")
        if why.startswith(UNSUPPORTED):
            raise ValueError(
                f"{pattern!r}: lookaround and backreferences are not supported, because matching them may never end"
            ) from None
        raise ValueError(f"{pattern!r} is not a 'regex' that can be matched here: {why}") from None


@lru_cache(maxsize=MOST_PATTERNS)
def _compiled(pattern: str) -> SchemaValidator:
    return SchemaValidator(core_schema.str_schema(pattern=_sound(pattern), regex_engine="rust-regex"))


def _sound(text: str) -> str:
    """Return a text without surrogates, which JSON can represent but UTF-8 cannot."""
    return text.encode("utf-8", "replace").decode()


def _matches(pattern: str, text: str) -> bool:
    """Return whether a pattern is found anywhere in a text."""
    return _compiled(pattern).isinstance_python(_sound(text))


def _wrong(message: str) -> "ValidationError":
    from jsonschema.exceptions import ValidationError  # noqa: PLC0415 - heavy, and few specialists have a schema

    return ValidationError(message)


def _pattern(_validator: Validator, pattern: str, value: object, _schema: Mapping[str, Any]) -> Errors:
    if isinstance(value, str) and not _matches(pattern, value):
        yield _wrong(f"{value!r} does not match {pattern!r}")


def _pattern_properties(
    validator: Validator, patterns: Mapping[str, Any], value: object, _schema: Mapping[str, Any]
) -> Errors:
    if isinstance(value, dict):
        for pattern, part in patterns.items():
            for name in value:
                if _matches(pattern, name):
                    yield from validator.descend(value[name], part, path=name, schema_path=pattern)


def _additional_properties(validator: Validator, part: JsonSchema, value: object, schema: Mapping[str, Any]) -> Errors:
    if not isinstance(value, dict):
        return
    patterns = schema.get("patternProperties", {})
    extras = [name for name in value if name not in schema.get("properties", {}) and not _any(patterns, name)]
    if isinstance(part, dict):
        for name in extras:
            yield from validator.descend(value[name], part, path=name)
    elif not part and extras:
        names, one = ", ".join(map(repr, sorted(extras))), len(extras) == 1
        if patterns:
            regexes = ", ".join(map(repr, sorted(patterns)))
            yield _wrong(f"{names} {'does' if one else 'do'} not match any of the regexes: {regexes}")
        else:
            were = "was" if one else "were"
            yield _wrong(f"Additional properties are not allowed ({names} {were} unexpected)")


def _unevaluated_properties(validator: Validator, part: JsonSchema, value: object, schema: Mapping[str, Any]) -> Errors:
    if not isinstance(value, dict):
        return
    others = sorted(value.keys() - _evaluated(validator, value, schema))
    if others:
        were = f"{', '.join(map(repr, others))} {'was' if len(others) == 1 else 'were'}"
        if part is False:
            yield _wrong(f"Unevaluated properties are not allowed ({were} unexpected)")
        else:
            yield _wrong(
                f"Unevaluated properties are not valid under the given schema ({were} unevaluated and invalid)"
            )


def _evaluated(validator: Validator, value: Mapping[str, Any], schema: JsonSchema) -> set[str]:
    """Return the names of the properties that a schema, or a matching part of it, has evaluated successfully."""
    if isinstance(schema, bool):
        return set()

    def holds(part: JsonSchema, item: object = value) -> bool:
        return next(iter(validator.descend(item, part)), None) is None

    patterns, named = schema.get("patternProperties", {}), schema.get("properties", {})
    names = {name for name in value if name in named or _any(patterns, name)}
    for key in ("additionalProperties", "unevaluatedProperties"):
        if key in schema:
            names |= {name for name, item in value.items() if holds(schema[key], item)}
    parts = [part for key in ("allOf", "anyOf", "oneOf") for part in schema.get(key, ()) if holds(part)]
    parts += [part for name, part in schema.get("dependentSchemas", {}).items() if name in value]
    if "if" in schema:
        parts += [schema["if"], schema.get("then", True)] if holds(schema["if"]) else [schema.get("else", True)]
    inside = (_evaluated(validator, value, part) for part in parts)
    return names.union(*inside, *(_evaluated(to, value, to.schema) for to in _referred(validator, schema)))


def _referred(validator: Validator, schema: Mapping[str, Any]) -> Iterator[Validator]:
    """Yield a validator for each schema that a schema refers to."""
    from referencing.jsonschema import lookup_recursive_ref  # noqa: PLC0415 - comes with jsonschema

    # Only the validator knows the base of a reference, and it has no public API for it.
    resolver = validator._resolver  # noqa: SLF001
    found = [resolver.lookup(schema[key]) for key in ("$ref", "$dynamicRef") if key in schema]
    if "$recursiveRef" in schema:
        found.append(lookup_recursive_ref(resolver))
    for target in found:
        yield validator.evolve(schema=target.contents, _resolver=target.resolver)


def _any(patterns: Iterable[str], name: str) -> bool:
    return any(_matches(pattern, name) for pattern in patterns)


def _unique_items(_validator: Validator, wanted: object, value: object, _schema: Mapping[str, Any]) -> Errors:
    if wanted and isinstance(value, list) and len({_key(item) for item in value}) < len(value):
        yield _wrong(f"{value!r} has non-unique elements")


def _key(value: object) -> object:
    """Return a hashable key, equal for values that JSON Schema considers equal: 1 and 1.0 are, 1 and true are not."""
    match value:
        case bool():
            return bool, value
        case int() | float():
            # As text: numbers can be chosen so that all their hashes are the same, and a set of them is slow.
            return float, f"{int(value):x}" if value == value // 1 else float(value).hex()
        case dict():
            return frozenset((name, _key(item)) for name, item in value.items())
        case list():
            return tuple(map(_key, value))
        case _:
            return value


_OURS: dict[str, Keyword] = {
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional_properties,
    "unevaluatedProperties": _unevaluated_properties,
    "uniqueItems": _unique_items,
}

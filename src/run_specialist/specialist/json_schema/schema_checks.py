"""Check a JSON Schema, and values against it, without network and in bounded time.

Whatever the schema, a check takes about as long as `MOST_CHECKS` keywords; see `schema_keywords` for the bounds of one
keyword. Exceptions: a pattern with repetition counts in the thousands on a very long text (each character takes that
many steps), and long alternatives of `enum` that differ only at their ends.
"""

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

from run_specialist.specialist.json_schema.schema_keywords import (
    MOST_PATTERNS,
    Errors,
    Keyword,
    check_pattern,
    replaced,
)
from run_specialist.specialist.json_schema.schema_reasons import (
    LONGEST_MESSAGE,
    LONGEST_PLACE,
    depth,
    place_of,
    short,
    told,
)
from run_specialist.specialist.reading.nodes import DEEPEST

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError
    from jsonschema.protocols import Validator

MOST_CHECKS = 200_000
"""Maximum number of keyword checks per value; a large answer takes some thousands."""
AT_ONCE = 25
"""Number of names or values in a keyword that count as one check."""
CHARACTERS_AT_ONCE = 250
"""Maximum length of an error that counts as one check [characters]; many errors quote the whole value."""
MOST_LEVELS = 120
"""Maximum nesting of keywords; below Python's own limit, at which the library fails in another way."""
# They check again, and uncounted, the values that the other keywords have checked.
_LAST = frozenset({"unevaluatedItems", "unevaluatedProperties"})
_PATTERNED = frozenset({"patternProperties", "additionalProperties", "unevaluatedProperties"})
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
# One value of each type; any of them reveals a reference that only leads back to itself.
_SAMPLES: tuple[object, ...] = (None, True, 0, "", [None], {"": None})
_DEPENDENT = ("dependentSchemas", "dependencies")


class _TooMuchError(Exception):
    """A value requires more than `MOST_CHECKS` checks."""


def check(schema: Mapping[str, Any]) -> None:
    """Raise ValueError with one clause for a schema that is invalid, has a broken reference, or cannot be used."""
    kind = _dialect(schema)
    if _is_deep(schema):
        raise ValueError("is nested too deeply")
    _check_form(schema, kind)
    _check_parts(schema, kind)
    try:
        for sample in (*_SAMPLES, _with_all_names(schema)):
            _errors(sample, schema)
    except RecursionError:
        raise ValueError("refers to itself without end") from None
    except _TooMuchError:
        raise ValueError("takes too long to check: its parts refer to each other too often") from None


def _with_all_names(schema: Mapping[str, Any]) -> Mapping[str, object]:
    """Return an object with every name that a part of the schema checks only if the name is present."""
    names: dict[str, object] = {}
    parts: list[object] = [schema]
    while parts:
        part = parts.pop()
        if isinstance(part, Mapping):
            asked = (part.get(keyword) for keyword in _DEPENDENT)
            names.update((name, None) for found in asked if isinstance(found, Mapping) for name in found)
        parts += part.values() if isinstance(part, Mapping) else part if isinstance(part, list) else ()
    return names


def reason(value: object, schema: Mapping[str, Any]) -> str | None:
    """Return None for a valid value, otherwise one line with up to three errors and their places.

    schema: a schema that `check` accepts.
    """
    try:
        json.dumps(value, allow_nan=False)
        errors = _errors(value, schema)
    except _TooMuchError:
        return "the answer takes too long to check; a smaller one may do"
    except RecursionError:
        return "the answer is nested too deeply to be checked"
    except Exception as error:  # noqa: BLE001 - a fault of the validator must not cost the answer
        return short(f"the answer cannot be checked: {error}", LONGEST_MESSAGE)
    return told(errors, "the answer") if errors else None


def _dialect(schema: Mapping[str, Any]) -> "type[Validator]":
    """Return the validator for a schema's `$schema`, by default 2020-12; raises ValueError for unknown ones."""
    from jsonschema import Draft202012Validator  # noqa: PLC0415 - heavy, and few specialists have a schema
    from jsonschema.validators import validator_for  # noqa: PLC0415 - only schemas need it

    if "$schema" not in schema:
        return Draft202012Validator
    name = schema["$schema"]
    known: Any = isinstance(name, str) and validator_for({"$schema": name}, None)  # type: ignore[arg-type] # it may
    if not known:
        raise ValueError(f"$schema: {short(repr(name), LONGEST_MESSAGE)} is not supported; omit it for 2020-12")
    return cast("type[Validator]", known)


def _is_deep(value: object) -> bool:
    parts = [value]
    for _ in range(DEEPEST + 1):
        inner = [part.values() if isinstance(part, dict) else part for part in parts if isinstance(part, dict | list)]
        parts = [item for items in inner for item in items]
    return bool(parts)


def _check_form(schema: Any, kind: "type[Validator]", inside: str = "") -> None:  # noqa: ANN401 - any JSON
    # Of its formats only `regex` matters, which `_checked_patterns` checks more strictly.
    meta = kind(kind.META_SCHEMA)
    if errors := sorted(meta.iter_errors(schema), key=depth):
        raise ValueError(f"{inside}{told(errors[:1], 'the schema')}")


def _check_parts(schema: Mapping[str, Any], kind: "type[Validator]") -> None:
    """Raise ValueError for a pattern that cannot be matched, and for a reference outside this schema."""
    from referencing import Registry  # noqa: PLC0415 - comes with jsonschema
    from referencing.exceptions import Unresolvable  # noqa: PLC0415 - only schemas need it
    from referencing.jsonschema import specification_with  # noqa: PLC0415 - only schemas need it

    specification = specification_with(kind.META_SCHEMA["$schema"])
    resource = specification.create_resource(schema)
    opened, seen = [(resource, Registry().resolver_with_root(resource))], set[int]()
    patterns = set[str]()
    references: list[tuple[str, Any]] = []
    while opened or references:
        if opened:
            part, resolver = opened.pop()
            if id(part.contents) not in seen and isinstance(part.contents, dict):
                seen.add(id(part.contents))
                patterns |= _checked_patterns(part.contents, schema)
                if len(patterns) > MOST_PATTERNS:
                    raise ValueError(f"has more than {MOST_PATTERNS} patterns")
                if part is not resource and isinstance(part.contents.get("$schema"), str):
                    # With its own `$schema`, a part would choose a different validator, which is not bounded.
                    raise ValueError(f"{_place(part.contents, schema, '$schema')}: is allowed only at the top level")
                found = (part.contents.get(key) for key in _REFERENCES)
                references += [(to, resolver) for to in found if isinstance(to, str)]
                opened += [(inner, resolver.in_subresource(inner)) for inner in part.subresources()]
            continue
        to, resolver = references.pop()
        shown = short(repr(to), LONGEST_PLACE)
        try:
            target = resolver.lookup(to)
        except (Unresolvable, LookupError, TypeError, ValueError):
            raise ValueError(f"the reference {shown} does not exist in the schema; schemas are not fetched") from None
        if not isinstance(target.contents, dict | bool):
            raise ValueError(f"the reference {shown} does not lead to a schema")  # noqa: TRY004 - bad input, not a bad call
        if id(target.contents) not in seen:
            # No keyword expects a schema here, so it has not been checked yet.
            _check_form(target.contents, kind, f"at {shown}: ")
            opened.append((specification.create_resource(target.contents), target.resolver))


def _checked_patterns(part: Mapping[str, Any], schema: Mapping[str, Any]) -> set[str]:
    """Return the patterns in the keywords of a part; raises ValueError for one that cannot be matched."""
    checked = set[str]()
    given = {"pattern": [part.get("pattern")], "patternProperties": part.get("patternProperties", ())}
    for key, patterns in given.items():
        for pattern in patterns:
            try:
                if isinstance(pattern, str):
                    check_pattern(pattern)
                    checked.add(pattern)
            except ValueError as error:
                raise ValueError(f"{_place(part, schema, key)}: {short(str(error), LONGEST_MESSAGE)}") from None
    return checked


def _place(part: object, schema: object, key: str) -> str:
    return short(place_of([*(_path(part, schema) or ()), key]), LONGEST_PLACE)


def _path(part: object, whole: object) -> list[str | int] | None:
    """Return the path to a part, found by object identity."""
    if part is whole:
        return []
    inside: Iterable[tuple[str | int, object]] = ()
    inside = whole.items() if isinstance(whole, dict) else enumerate(whole) if isinstance(whole, list) else inside
    return next(([name, *path] for name, item in inside if (path := _path(part, item)) is not None), None)


def _errors(value: Any, schema: Mapping[str, Any]) -> "list[ValidationError]":  # noqa: ANN401 - any JSON
    """Return all errors of a value, outermost first; raises _TooMuchError."""
    from jsonschema.validators import extend  # noqa: PLC0415 - see `_dialect`
    from referencing import Registry  # noqa: PLC0415 - only schemas need it

    kind, left, level = _dialect(schema), MOST_CHECKS, 0

    def spend(checks: int) -> None:
        nonlocal left
        left -= checks
        if left < 0:
            raise _TooMuchError

    def counted(name: str, keyword: Keyword) -> Keyword:
        def counting(validator: "Validator", wanted: object, item: object, part: Mapping[str, Any]) -> Errors:
            nonlocal level
            spend(1 + _looked_at(name, wanted, item, part) // AT_ONCE)
            if level >= MOST_LEVELS:
                raise RecursionError
            level += 1
            try:
                for error in keyword(validator, wanted, item, part) or ():
                    spend(1 + len(error.message) // CHARACTERS_AT_ONCE)
                    yield error
            finally:
                level -= 1

        return counting

    keywords = {name: counted(name, keyword) for name, keyword in replaced(kind.VALIDATORS).items()}
    bounded: type[Validator] = extend(kind, keywords)  # type: ignore[no-untyped-call] # the stubs leave it open
    # By its `$schema` it would choose the library's own validator.
    anonymous = {key: item for key, item in schema.items() if key != "$schema"}
    return sorted(bounded(_ordered(anonymous), registry=Registry()).iter_errors(value), key=depth)


def _looked_at(name: str, wanted: object, value: object, schema: Mapping[str, Any]) -> int:
    """Return the approximate number of names or values that a keyword itself checks."""
    if name in _PATTERNED and isinstance(value, dict):
        return len(value) * len(schema.get("patternProperties", ()))
    return len(wanted) if isinstance(wanted, list | dict) else 0


def _ordered(part: Any) -> Any:  # noqa: ANN401 - any JSON
    """Return a schema with the keywords that inspect all others at the end, after everything has been counted."""
    if isinstance(part, list):
        return [_ordered(item) for item in part]
    if not isinstance(part, dict):
        return part
    return {key: _ordered(part[key]) for key in sorted(part, key=_LAST.__contains__)}

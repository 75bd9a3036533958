"""Check a JSON Schema, and values against it, without network and in bounded time.

Whatever the schema, a check takes about as long as `MOST_CHECKS` keywords, and each keyword is bounded. Exceptions: a
pattern with repetition counts in the thousands on a very long text (each character takes that many steps), and long
alternatives of `enum` that differ only at their ends.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

from pydantic_core import SchemaError, SchemaValidator, core_schema

from run_specialist.specialist.positions import DEEPEST, is_deeper

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError
    from jsonschema.protocols import Validator


MOST_CHECKS = 200_000
"""Maximum number of keyword checks per value; a large answer takes some thousands."""
AT_ONCE = 25
"""Number of names or values in a keyword that count as one check."""
# Maximum length of an error that counts as one check [characters]; many errors quote the whole value.
_CHARACTERS_AT_ONCE = 250
# Maximum nesting of keywords; below Python's own limit, at which the library fails in another way.
_MOST_LEVELS = 120
_PATTERNED = frozenset({"patternProperties", "additionalProperties"})
# The library would check the same values for them again, uncounted.
# Keywords that a schema must not use, with what to use instead.
_UNSUPPORTED = {"unevaluatedProperties": "additionalProperties", "unevaluatedItems": "items"}
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
# One value of each type; any of them reveals a reference that only leads back to itself.
_SAMPLES: tuple[object, ...] = (None, True, 0, "", [None], {"": None})


class _TooMuchError(Exception):
    """A value requires more than `MOST_CHECKS` checks."""


def check(schema: object) -> dict[str, Any]:
    """Return a schema as a map; raises ValueError with one clause for one that is invalid or cannot be used."""
    if schema is False:
        raise ValueError("is false, which no answer can match")
    schema = {} if schema is True else schema
    if not isinstance(schema, dict):
        raise ValueError("must be a JSON Schema, which is a map")  # noqa: TRY004 - bad input, not a bad call
    kind = _dialect(schema)
    if is_deeper(schema, DEEPEST + 1):
        raise ValueError("is nested too deeply")
    _check_form(schema, kind)
    conditional = dict.fromkeys(_check_parts(schema, kind))
    try:
        for sample in (*_SAMPLES, conditional):
            _errors(sample, schema)
    except RecursionError:
        raise ValueError("refers to itself without end") from None
    except _TooMuchError:
        raise ValueError("takes too long to check: its parts refer to each other too often") from None
    return schema


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
        return short(f"the answer cannot be checked: {error}", _LONGEST_MESSAGE)
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
        raise ValueError(f"$schema: {short(repr(name), _LONGEST_MESSAGE)} is not supported; omit it for 2020-12")
    return cast("type[Validator]", known)


def _check_form(schema: Any, kind: "type[Validator]", inside: str = "") -> None:  # noqa: ANN401 - any JSON
    # Of its formats only `regex` matters, which `_checked_patterns` checks more strictly.
    meta = kind(kind.META_SCHEMA)
    if errors := sorted(meta.iter_errors(schema), key=depth):
        raise ValueError(f"{inside}{told(errors[:1], 'the schema')}")


def _check_parts(schema: Mapping[str, Any], kind: "type[Validator]") -> set[str]:
    """Return the names whose presence alone decides whether a part of the schema applies.

    Raises ValueError for a part that cannot be used, and for a reference outside this schema.
    """
    from referencing import Registry  # noqa: PLC0415 - comes with jsonschema
    from referencing.exceptions import Unresolvable  # noqa: PLC0415 - only schemas need it
    from referencing.jsonschema import specification_with  # noqa: PLC0415 - only schemas need it

    specification = specification_with(kind.META_SCHEMA["$schema"])
    root = specification.create_resource(schema)
    opened, seen = [(root, Registry().resolver_with_root(root))], set[int]()
    patterns, names = set[str](), set[str]()
    references: list[tuple[str, Any]] = []
    while opened or references:
        if opened:
            resource, resolver = opened.pop()
            part = resource.contents
            if id(part) not in seen and isinstance(part, dict):
                seen.add(id(part))
                patterns |= _checked_patterns(part, schema)
                if len(patterns) > MOST_PATTERNS:
                    raise ValueError(f"has more than {MOST_PATTERNS} patterns")
                for key in ("dependentSchemas", "dependencies"):
                    names |= part[key].keys() if isinstance(part.get(key), dict) else set()
                references += [(to, resolver) for key in _REFERENCES if isinstance(to := part.get(key), str)]
                opened += [(inner, resolver.in_subresource(inner)) for inner in resource.subresources()]
            continue
        to, resolver = references.pop()
        shown = short(repr(to), _LONGEST_PLACE)
        try:
            found = resolver.lookup(to)
        except (Unresolvable, LookupError, TypeError, ValueError):
            raise ValueError(f"the reference {shown} does not exist in the schema; schemas are not fetched") from None
        if not isinstance(found.contents, dict | bool):
            raise ValueError(f"the reference {shown} does not lead to a schema")  # noqa: TRY004 - bad input, not a bad call
        if id(found.contents) not in seen:
            # No keyword expects a schema here, so it has not been checked yet.
            _check_form(found.contents, kind, f"at {shown}: ")
            opened.append((specification.create_resource(found.contents), found.resolver))
    return names


def _checked_patterns(part: Mapping[str, Any], schema: Mapping[str, Any]) -> set[str]:
    """Return the patterns of a part; raises ValueError for a keyword or a pattern that cannot be used in it."""

    def refused(key: str, why: str) -> ValueError:
        place = place_of([*(_path(part, schema) or ()), key])
        return ValueError(f"{short(place, _LONGEST_PLACE)}: {short(why, _LONGEST_MESSAGE)}")

    if part is not schema and isinstance(part.get("$schema"), str):
        # With its own `$schema`, a part would choose a different validator, which is not bounded.
        raise refused("$schema", "is allowed only at the top level")
    if key := next(iter(_UNSUPPORTED.keys() & part.keys()), ""):
        raise refused(key, f"is not supported; use {_UNSUPPORTED[key]}")
    checked = set[str]()
    for key, patterns in (("pattern", [part.get("pattern")]), ("patternProperties", part.get("patternProperties", ()))):
        for pattern in patterns:
            if isinstance(pattern, str):
                try:
                    _compiled(pattern)
                except SchemaError as error:
                    why = str(error).splitlines()[-1].strip().removeprefix("error: ").removeprefix("SchemaError: ")
                    raise refused(key, f"{pattern!r} cannot be matched here: {why.rstrip('.')}") from None
                checked.add(pattern)
    return checked


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
            # The approximate number of names or values that the keyword itself checks.
            looked_at = len(wanted) if isinstance(wanted, list | dict) else 0
            if name in _PATTERNED and isinstance(item, dict):
                looked_at = len(item) * len(part.get("patternProperties", ()))
            spend(1 + looked_at // AT_ONCE)
            if level >= _MOST_LEVELS:
                raise RecursionError
            level += 1
            try:
                for error in keyword(validator, wanted, item, part) or ():
                    spend(1 + len(error.message) // _CHARACTERS_AT_ONCE)
                    yield error
            finally:
                level -= 1

        return counting

    keywords = {name: counted(name, OURS.get(name) or keyword) for name, keyword in kind.VALIDATORS.items()}
    bounded: type[Validator] = extend(kind, keywords)  # type: ignore[no-untyped-call] # the stubs leave it open
    # By its `$schema` it would choose the library's own validator.
    anonymous = {key: item for key, item in schema.items() if key != "$schema"}
    return sorted(bounded(anonymous, registry=Registry()).iter_errors(value), key=depth)


# Bounded versions of slow JSON Schema keywords: those with patterns, and `uniqueItems`.
#
# The library's versions match with an engine that backtracks, so that a pattern like `^(a+)+$` never ends, and compare
# every pair of items. The error messages here are the same.

# A validator of jsonschema; its protocol lacks `descend`, which every keyword needs.
_AnyValidator = Any
# A part of a schema that is itself a schema.
_JsonSchema = Mapping[str, Any] | bool
Errors = Iterator["ValidationError"]
Keyword = Callable[[_AnyValidator, Any, Any, Mapping[str, Any]], Iterable["ValidationError"] | None]
"""The check of one keyword: validator, the keyword's value in the schema, the value to check, the enclosing schema."""

MOST_PATTERNS = 256
"""Size of the cache of compiled patterns; with more patterns in one schema, each match compiles its pattern again."""


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


def _pattern(_validator: _AnyValidator, pattern: str, value: object, _schema: Mapping[str, Any]) -> Errors:
    if isinstance(value, str) and not _matches(pattern, value):
        yield _wrong(f"{value!r} does not match {pattern!r}")


def _pattern_properties(
    validator: _AnyValidator, patterns: Mapping[str, Any], value: object, _schema: Mapping[str, Any]
) -> Errors:
    if isinstance(value, dict):
        for pattern, part in patterns.items():
            for name in value:
                if _matches(pattern, name):
                    yield from validator.descend(value[name], part, path=name, schema_path=pattern)


def _additional_properties(
    validator: _AnyValidator, part: _JsonSchema, value: object, schema: Mapping[str, Any]
) -> Errors:
    if not isinstance(value, dict):
        return
    patterns = schema.get("patternProperties", {})
    extras = [
        name
        for name in value
        if name not in schema.get("properties", {}) and not any(_matches(pattern, name) for pattern in patterns)
    ]
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


def _unique_items(_validator: _AnyValidator, wanted: object, value: object, _schema: Mapping[str, Any]) -> Errors:
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


OURS: dict[str, Keyword] = {
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional_properties,
    "uniqueItems": _unique_items,
}


# Maximum number of errors in a line.
_MOST_PLACES = 3
# Maximum lengths of a place and of its error message [characters].
_LONGEST_PLACE, _LONGEST_MESSAGE = 80, 240
_NAME = re.compile(r"[A-Za-z_$][\w$-]*")


def depth(error: "ValidationError") -> int:
    """Return the depth of an error in the value; outer errors are reported first."""
    return len(error.absolute_path)


def told(errors: "Iterable[ValidationError]", whole: str) -> str:
    """Return one line with the first errors, each at its most relevant place.

    whole: Name of the root.
    """
    lines: dict[str, None] = {}
    for error in errors:
        best = _meant(error)
        place = place_of(best.absolute_path) or whole
        lines[f"{short(place, _LONGEST_PLACE)}: {short(best.message, _LONGEST_MESSAGE)}"] = None
        if len(lines) == _MOST_PLACES:
            break
    return "; ".join(lines)


def _meant(error: "ValidationError") -> "ValidationError":
    """Return the most relevant error: for alternatives, an error of the one closest to the value."""
    branches: dict[object, list[ValidationError]] = {}
    for inner in error.context or ():
        # An alternative that is `false` has no place in the schema and is never the intended one.
        if inner.relative_schema_path:
            branches.setdefault(inner.relative_schema_path[0], []).append(inner)
    ranked = sorted(branches.values(), key=_distance)
    if not ranked or (len(ranked) > 1 and _distance(ranked[0]) == _distance(ranked[1])):
        return error
    return _meant(min(ranked[0], key=depth))


def _distance(branch: "list[ValidationError]") -> tuple[bool, bool, int]:
    """Return the distance of the value from an alternative: different type, different constant, number of errors."""
    other_type = any(error.validator == "type" and not error.relative_path for error in branch)
    other_value = any(error.validator in {"const", "enum"} for error in branch)
    return other_type, other_value, len(branch)


def place_of(path: Iterable[str | int]) -> str:
    """Return a path as text, such as `items[2].price`."""

    def steps() -> Iterator[str]:
        for name in path:
            plain = isinstance(name, str) and _NAME.fullmatch(name)
            yield f".{name}" if plain else f"[{json.dumps(name, ensure_ascii=False)}]"

    return "".join(steps()).removeprefix(".")


def short(text: str, most: int) -> str:
    """Return a text on one line; long texts lose their middle, because their end matters most."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most // 2 - 3]} ... {line[-most // 2 + 2 :]}"


def target(root: Mapping[str, Any], pointer: str) -> Mapping[str, Any] | None:
    """Return the object that a JSON pointer such as `#/$defs/item` refers to; None if there is none."""
    if not pointer.startswith("#"):
        return None
    part: Any = root
    for escaped in pointer.split("/")[1:]:
        name = escaped.replace("~1", "/").replace("~0", "~")
        part = part.get(name) if isinstance(part, Mapping) else None
    return part if isinstance(part, Mapping) else None

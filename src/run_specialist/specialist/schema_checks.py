"""Check a JSON Schema, and values against it, without a network and within bounds.

Whatever a schema asks for, checking takes at most `MOST_CHECKS` keywords. Not covered is what one keyword does by
itself: a `pattern` that backtracks without end, and `unevaluatedProperties` over parts that refer to each other often.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError
    from jsonschema.protocols import Validator

MOST_CHECKS = 200_000
"""Keywords that are looked at for one value; a large answer takes some thousands."""
MOST_PLACES = 3
"""Places that a reason names."""
_PLACE, _MESSAGE = 80, 240
_NAME = re.compile(r"[A-Za-z_$][\w$-]*")
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
# One value of each type; a reference that only leads back to itself shows with any of them.
_SAMPLES: tuple[object, ...] = (None, True, 0, "", [None], {"": None})


class _TooMuchError(Exception):
    """The checks of one value came to more than `MOST_CHECKS`."""


def check(schema: Mapping[str, Any]) -> None:
    """Raise ValueError with one clause for a schema that is invalid, refers to nothing, or cannot be checked with."""
    kind = _dialect(schema)
    try:
        _check_form(schema, kind)
        _check_references(schema, kind)
    except RecursionError:
        raise ValueError("is nested too deeply") from None
    try:
        for sample in _SAMPLES:
            _errors(sample, schema)
    except RecursionError:
        raise ValueError("refers to itself without end") from None
    except _TooMuchError:
        raise ValueError("takes too long to check: its parts refer to each other too often") from None


def reason(value: object, schema: Mapping[str, Any]) -> str | None:
    """Return None for a value that matches, else one line on what is wrong at up to `MOST_PLACES` places.

    schema: one that `check` lets pass.
    """
    try:
        json.dumps(value, allow_nan=False)
        errors = _errors(value, schema)
    except _TooMuchError:
        return "the answer takes too long to check; a smaller one may do"
    except RecursionError:
        return "the answer is nested too deeply to be checked"
    except Exception as error:  # noqa: BLE001 - a fault of the validator must not cost the answer
        return _short(f"the answer cannot be checked: {error}", _MESSAGE)
    return _told(errors, "the answer") if errors else None


def _dialect(schema: Mapping[str, Any]) -> "type[Validator]":
    """Return the validator for a schema's `$schema`, 2020-12 where it has none; raises ValueError for others."""
    from jsonschema import Draft202012Validator  # noqa: PLC0415 - heavy, and few specialists have a schema
    from jsonschema.validators import validator_for  # noqa: PLC0415 - likewise

    if "$schema" not in schema:
        return Draft202012Validator
    name = schema["$schema"]
    known: Any = isinstance(name, str) and validator_for({"$schema": name}, None)  # type: ignore[arg-type] # it may
    if not known:
        raise ValueError(f"$schema: {_short(repr(name), _MESSAGE)} is not known here; leave it out for 2020-12")
    return cast("type[Validator]", known)


def _check_form(schema: Any, kind: "type[Validator]", inside: str = "") -> None:  # noqa: ANN401 - any JSON
    meta = kind(kind.META_SCHEMA, format_checker=kind.FORMAT_CHECKER)
    if errors := sorted(meta.iter_errors(schema), key=_depth):
        raise ValueError(f"{inside}{_told(errors[:1], 'the schema')}")


def _check_references(schema: Mapping[str, Any], kind: "type[Validator]") -> None:
    """Raise ValueError for a reference that leads nowhere, out of the schema, or to what is no schema."""
    from referencing import Registry  # noqa: PLC0415 - comes with jsonschema
    from referencing.exceptions import Unresolvable  # noqa: PLC0415 - likewise
    from referencing.jsonschema import specification_with  # noqa: PLC0415 - likewise

    specification = specification_with(kind.META_SCHEMA["$schema"])
    resource = specification.create_resource(schema)
    opened, seen = [(resource, Registry().resolver_with_root(resource))], set[int]()
    references: list[tuple[str, Any]] = []
    while opened or references:
        if opened:
            part, resolver = opened.pop()
            if id(part.contents) not in seen and isinstance(part.contents, dict):
                seen.add(id(part.contents))
                found = (part.contents.get(key) for key in _REFERENCES)
                references += [(to, resolver) for to in found if isinstance(to, str)]
                opened += [(inner, resolver.in_subresource(inner)) for inner in part.subresources()]
            continue
        to, resolver = references.pop()
        shown = _short(repr(to), _PLACE)
        try:
            target = resolver.lookup(to)
        except (Unresolvable, LookupError, TypeError, ValueError):
            raise ValueError(f"the reference {shown} leads nowhere in the schema; nothing is fetched") from None
        if not isinstance(target.contents, dict | bool):
            raise ValueError(f"the reference {shown} leads to what is no schema")  # noqa: TRY004 - bad input, not a bad call
        if id(target.contents) not in seen:
            # It stands where no keyword expects a schema, so that nothing has looked at it yet.
            _check_form(target.contents, kind, f"at {shown}: ")
            opened.append((specification.create_resource(target.contents), target.resolver))


def _errors(value: Any, schema: Mapping[str, Any]) -> "list[ValidationError]":  # noqa: ANN401 - any JSON
    """Return all that is wrong with a value, outermost first; raises _TooMuchError."""
    from jsonschema.validators import extend  # noqa: PLC0415 - see `_dialect`
    from referencing import Registry  # noqa: PLC0415 - likewise

    kind, left = _dialect(schema), MOST_CHECKS

    def counted(keyword: Callable[..., Iterable["ValidationError"] | None]) -> Callable[..., Any]:
        def counting(*arguments: object) -> Iterable["ValidationError"] | None:
            nonlocal left
            left -= 1
            if left < 0:
                raise _TooMuchError
            return keyword(*arguments)

        return counting

    keywords = {name: counted(keyword) for name, keyword in kind.VALIDATORS.items()}
    bounded: type[Validator] = extend(kind, keywords)  # type: ignore[no-untyped-call] # the stubs leave it open
    # By its `$schema` a part would choose a validator of its own, one that does not count.
    anonymous = {key: item for key, item in schema.items() if key != "$schema"}
    return sorted(bounded(anonymous, registry=Registry()).iter_errors(value), key=_depth)


def _depth(error: "ValidationError") -> int:
    return len(error.absolute_path)


def _told(errors: "Iterable[ValidationError]", whole: str) -> str:
    """Return one line on the first errors, each at the place that is most likely meant.

    whole: what stands for a place at the root.
    """
    lines: dict[str, None] = {}
    for error in errors:
        best = _meant(error)
        place = _place(best.absolute_path) or whole
        lines[f"{_short(place, _PLACE)}: {_short(best.message, _MESSAGE)}"] = None
        if len(lines) == MOST_PLACES:
            break
    return "; ".join(lines)


def _meant(error: "ValidationError") -> "ValidationError":
    """Return what is wrong in the one alternative that was most likely meant, where there are several."""
    branches: dict[object, list[ValidationError]] = {}
    for inner in error.context or ():
        # An alternative that is `false` has no place of its own, and is never what was meant.
        if inner.relative_schema_path:
            branches.setdefault(inner.relative_schema_path[0], []).append(inner)
    ranked = sorted(branches.values(), key=_far)
    if not ranked or (len(ranked) > 1 and _far(ranked[0]) == _far(ranked[1])):
        return error
    return _meant(min(ranked[0], key=_depth))


def _far(branch: "list[ValidationError]") -> tuple[bool, bool, int]:
    """Rate how far a value is from an alternative: another type, another fixed value, more that is wrong."""
    other_type = any(error.validator == "type" and not error.relative_path for error in branch)
    other_value = any(error.validator in {"const", "enum"} for error in branch)
    return other_type, other_value, len(branch)


def _place(path: Iterable[str | int]) -> str:
    """Return `items[2].price`."""

    def steps() -> Iterator[str]:
        for name in path:
            plain = isinstance(name, str) and _NAME.fullmatch(name)
            yield f".{name}" if plain else f"[{json.dumps(name, ensure_ascii=False)}]"

    return "".join(steps()).removeprefix(".")


def _short(text: str, most: int) -> str:
    """Return a text on one line; of a long one the middle goes, because the point stands at its end."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most // 2 - 3]} ... {line[-most // 2 + 2 :]}"

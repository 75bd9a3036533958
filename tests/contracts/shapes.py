"""A small notation for JSON shapes, so that a contract can be read as a table.

text, count, number, flag, any   a string, an integer >= 0, a number >= 0, true or false, any value
limit                            an integer >= 0, or the string none
a `?` at the end                 or null
{"key": shape}                   an object with exactly these keys
{"...": shape}                   an object with any keys, each of that shape
[shape]                          a list
(shape, None)                    that, or null
{"word", "word"}                 one of these strings
"""

from collections.abc import Iterator
from typing import Any

Shape = str | dict[str, Any] | list[Any] | tuple[Any, None] | set[str] | frozenset[str]

_TYPES = {
    "text": lambda value: isinstance(value, str),
    "count": lambda value: isinstance(value, int) and not isinstance(value, bool) and value >= 0,
    "limit": lambda value: value == "none" or _TYPES["count"](value),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool) and value >= 0,
    "flag": lambda value: isinstance(value, bool),
    "any": lambda _: True,
}


def faults(value: object, shape: Shape, at: str = "$") -> Iterator[str]:
    """Yield each difference between a value and its shape, with its place: what was wanted, what was found."""
    match shape:
        case str():
            if not (shape.endswith("?") and value is None) and not _TYPES[shape.removesuffix("?")](value):
                yield f"{at}: wanted {shape}, found {value!r:.80}"
        case (inner, None):
            yield from () if value is None else faults(value, inner, at)
        case [inner]:
            if not isinstance(value, list):
                yield f"{at}: wanted a list, found {value!r:.80}"
                return
            for number, item in enumerate(value):
                yield from faults(item, inner, f"{at}[{number}]")
        case dict():
            yield from _faults_of_object(value, shape, at)
        case _:
            if value not in shape:
                yield f"{at}: wanted one of {', '.join(sorted(shape))}, found {value!r:.80}"


def _faults_of_object(value: object, shape: dict[str, Any], at: str) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{at}: wanted an object, found {value!r:.80}"
        return
    shape = dict.fromkeys(value, shape["..."]) if "..." in shape else shape
    for key in [one for one in shape if one not in value]:
        yield f"{at}.{key}: is gone"
    for key in [one for one in value if one not in shape]:
        yield f"{at}.{key}: is new"
    for key in [one for one in shape if one in value]:
        yield from faults(value[key], shape[key], f"{at}.{key}")

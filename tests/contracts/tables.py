"""The public contract: `contract.yaml` as values, and what differs between a value and its shape.

text, count, number, flag, any   a string, an integer >= 0, a number >= 0, true or false, any value
limit                            an integer >= 0, or the string none
a|b                              one of these types or words
{key: shape}                     an object with exactly these keys, and those of the shape under `<<`
{...: shape}                     an object with any keys, each of that shape
[shape]                          a list
[shape, null]                    that, or null
NAME                             the shape of that name
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

_WRITTEN = yaml.safe_load(Path(__file__).with_name("contract.yaml").read_text(encoding="utf-8"))
_TYPES = {
    "text": lambda value: isinstance(value, str),
    "count": lambda value: isinstance(value, int) and not isinstance(value, bool) and value >= 0,
    "limit": lambda value: value == "none" or _TYPES["count"](value),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool) and value >= 0,
    "flag": lambda value: isinstance(value, bool),
    "any": lambda _: True,
    "null": lambda value: value is None,
}


def _expanded(shape: Any) -> Any:
    """Return a shape with the shapes in place of their names."""
    if isinstance(shape, str):
        if shape in _WRITTEN:
            return _expanded(_WRITTEN[shape])
        return "|".join(_expanded(word) for word in shape.split("|")) if "|" in shape else shape
    if isinstance(shape, list):
        return [_expanded(inner) for inner in shape]
    if not isinstance(shape, dict):
        return shape
    base = _expanded(shape["<<"]) if "<<" in shape else {}
    return {**base, **{key: _expanded(one) for key, one in shape.items() if key != "<<"}}


SHAPES = {name: _expanded(shape) for name, shape in _WRITTEN.items()}
EVENTS, BATCH_EVENTS, PRINTED = SHAPES["EVENTS"], SHAPES["BATCH_EVENTS"], SHAPES["PRINTED"]


def words(name: str) -> set[str]:
    """Return the words that a named shape allows."""
    return set(SHAPES[name].split("|"))


def faults(value: object, shape: Any, at: str = "$") -> Iterator[str]:
    """Yield each difference between a value and its shape, with its place: what was wanted, what was found."""
    match shape:
        case str():
            if not any(_TYPES[one](value) if one in _TYPES else value == one for one in shape.split("|")):
                yield f"{at}: wanted {shape}, found {value!r:.80}"
        case [inner, None]:
            yield from () if value is None else faults(value, inner, at)
        case [inner]:
            if not isinstance(value, list):
                yield f"{at}: wanted a list, found {value!r:.80}"
                return
            for number, item in enumerate(value):
                yield from faults(item, inner, f"{at}[{number}]")
        case dict() if not isinstance(value, dict):
            yield f"{at}: wanted an object, found {value!r:.80}"
        case dict():
            shape = dict.fromkeys(value, shape["..."]) if "..." in shape else shape
            for key in [one for one in shape if one not in value]:
                yield f"{at}.{key}: is gone"
            for key in [one for one in value if one not in shape]:
                yield f"{at}.{key}: is new"
            for key in [one for one in shape if one in value]:
                yield from faults(value[key], shape[key], f"{at}.{key}")

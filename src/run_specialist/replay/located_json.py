"""Read a JSON object with the line number of each value and of each item of its lists."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_SPACE = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()


@dataclass(frozen=True, slots=True)
class LocatedValue:
    """A value and its position."""

    line: int
    """Number of its first line, from 1."""
    value: Any
    items: tuple["LocatedValue", ...] = ()
    """Items of a list."""


def located(text: str) -> Mapping[str, LocatedValue]:
    """Return the values of a JSON object by key.

    Raises json.JSONDecodeError if the text is not a JSON object, or if a key occurs twice.
    """
    found: dict[str, LocatedValue] = {}
    at = _expected(text, _after_space(text, 0), "{")
    while text[at : at + 1] != "}":
        if found:
            at = _expected(text, at, ",")
        begin = at
        key, at = _decoded(text, at)
        if not isinstance(key, str) or key in found:
            raise json.JSONDecodeError(f"expected another key than {key!r}", text, begin)
        at = _expected(text, _after_space(text, at), ":")
        found[key], at = _value(text, at)
    if _after_space(text, at + 1) != len(text):
        raise json.JSONDecodeError("expected the end of the file", text, _after_space(text, at + 1))
    return found


def _value(text: str, at: int) -> tuple[LocatedValue, int]:
    line = _line(text, at)
    if text[at : at + 1] != "[":
        value, at = _decoded(text, at)
        return LocatedValue(line, value), _after_space(text, at)
    items: list[LocatedValue] = []
    at = _after_space(text, at + 1)
    while text[at : at + 1] != "]":
        if items:
            at = _expected(text, at, ",")
        begin = at
        value, at = _decoded(text, at)
        items.append(LocatedValue(_line(text, begin), value))
        at = _after_space(text, at)
    return LocatedValue(line, [item.value for item in items], tuple(items)), _after_space(text, at + 1)


def _decoded(text: str, at: int) -> tuple[Any, int]:
    """Return the value at a position, and the position after it."""
    return _DECODER.raw_decode(text, at)


def _expected(text: str, at: int, mark: str) -> int:
    """Return the position after a punctuation mark; raises JSONDecodeError if the mark is missing."""
    if text[at : at + 1] != mark:
        raise json.JSONDecodeError(f"expected {mark!r}", text, at)
    return _after_space(text, at + 1)


def _after_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _line(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1

"""Any value as text, however odd: nothing that somebody else made may keep a run from being stored."""

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import lru_cache
from typing import Any

LONGEST_NUMBER = 1_000
"""Python refuses to write much longer ones [bits]."""
DEEPEST = 100
"""So deep values are kept when they cannot be written as they are."""
KINDS = 200
"""The fields of so many kinds of values are remembered."""


def word(value: object) -> str:
    """Return a text as a column of characters takes it: no NUL, no lone surrogate."""
    return str(value).replace("\0", "\ufffd").encode("utf-8", "replace").decode()


def text(value: object, *, only_ascii: bool = False) -> str:
    """Return a value as compact JSON; what is no JSON is written as its text, and nothing raises.

    Read back, it gives the same bytes in every request as the value itself.
    """
    encoder = _ASCII if only_ascii else _COMPACT
    try:
        return encoder.encode(value)
    except Exception:  # noqa: BLE001 - cycles, odd keys, endless numbers, a mapping that changes meanwhile
        return encoder.encode(_mended(value, DEEPEST))


def _plain(value: object) -> object:
    try:
        if isinstance(value, Mapping):
            return dict(value)
        if isinstance(value, (list, tuple, set, frozenset)):
            return list(value)
        return fields_of(value) if is_dataclass(value) and not isinstance(value, type) else str(value)
    except Exception:  # noqa: BLE001 - foreign values are foreign code
        return type(value).__name__


_ASCII, _COMPACT = (
    json.JSONEncoder(ensure_ascii=only_ascii, separators=(",", ":"), default=_plain) for only_ascii in (True, False)
)


def fields_of(value: Any) -> dict[str, Any]:  # noqa: ANN401 - any dataclass
    """Return the fields of a dataclass, none of them copied."""
    return {name: getattr(value, name) for name in _names(value.__class__)}


@lru_cache(KINDS)
def _names(kind: type) -> tuple[str, ...]:
    return tuple(each.name for each in fields(kind))


def _mended(value: object, depth: int) -> object:
    if value is None or isinstance(value, (str, bool, float)):
        return value
    if isinstance(value, int):
        return value if value.bit_length() < LONGEST_NUMBER else hex(value)
    if depth == 0:
        return "…"
    plain = _plain(value)
    if isinstance(plain, dict):
        return {str(_plain(key)): _mended(plain[key], depth - 1) for key in list(plain)}
    return [_mended(item, depth - 1) for item in plain] if isinstance(plain, list) else plain

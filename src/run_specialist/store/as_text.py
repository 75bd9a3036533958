"""Serialize any value as text: no untrusted value may prevent a run from being stored."""

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import lru_cache
from typing import Any

LONGEST_NUMBER = 1_000
"""Larger integers are written in hexadecimal, since Python limits their conversion to decimal [bits]."""
DEEPEST = 100
"""Maximum nesting depth of values that need conversion."""
KINDS = 200
"""Cache size for the field names of dataclasses."""


def column_text(value: object) -> str:
    """Return a value as text for a character column: NUL and lone surrogates are replaced."""
    return str(value).replace("\0", "\ufffd").encode("utf-8", "replace").decode()


def json_text(value: object, *, only_ascii: bool = False) -> str:
    """Return a value as compact JSON; parts that JSON cannot represent are converted to text. Never raises.

    The parsed JSON serializes to the same bytes in every request as the value itself.
    """
    encoder = _ASCII if only_ascii else _COMPACT
    try:
        return encoder.encode(value)
    except Exception:  # noqa: BLE001 - cycles, invalid keys, huge numbers, a mapping that changes during iteration
        return encoder.encode(_serializable(value, DEEPEST))


def _simplified(value: object) -> object:
    try:
        if isinstance(value, Mapping):
            return dict(value)
        if isinstance(value, (list, tuple, set, frozenset)):
            return list(value)
        return fields_of(value) if is_dataclass(value) and not isinstance(value, type) else str(value)
    except Exception:  # noqa: BLE001 - untrusted values run untrusted code
        return type(value).__name__


_ASCII, _COMPACT = (
    json.JSONEncoder(ensure_ascii=only_ascii, separators=(",", ":"), default=_simplified)
    for only_ascii in (True, False)
)


def fields_of(value: Any) -> dict[str, Any]:  # noqa: ANN401 - any dataclass
    """Return the fields of a dataclass without copying their values."""
    return {name: getattr(value, name) for name in _names(value.__class__)}


@lru_cache(KINDS)
def _names(kind: type) -> tuple[str, ...]:
    return tuple(each.name for each in fields(kind))


def _serializable(value: object, depth: int) -> object:
    if value is None or isinstance(value, (str, bool, float)):
        return value
    if isinstance(value, int):
        return value if value.bit_length() < LONGEST_NUMBER else hex(value)
    if depth == 0:
        return "…"
    plain = _simplified(value)
    if isinstance(plain, dict):
        return {str(_simplified(key)): _serializable(plain[key], depth - 1) for key in list(plain)}
    return [_serializable(item, depth - 1) for item in plain] if isinstance(plain, list) else plain

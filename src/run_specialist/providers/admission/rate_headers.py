"""Read the reply headers that report rate limits; invalid values are ignored, because servers may send wrong ones."""

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import Any, cast

from run_specialist.providers.admission.windows import Quota

_KINDS = "requests|tokens|input-tokens|output-tokens"
_WHAT = "limit|remaining|reset"
_NAME = re.compile(
    rf"(?:anthropic-ratelimit-(?P<kind>{_KINDS})-(?P<what>{_WHAT})"
    rf"|x-ratelimit-(?P<what2>{_WHAT})-(?P<kind2>{_KINDS}))",
    re.ASCII,
)
_NUMBER = re.compile(r"[0-9]{1,15}(?:\.[0-9]{1,9})?", re.ASCII)
_DURATION = re.compile(r"(?:[0-9]{1,9}(?:\.[0-9]{1,9})?(?:ms|us|µs|ns|s|m|h|d))+", re.ASCII)
_PART = re.compile(r"([0-9.]+)([a-zµ]+)")
_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_EPOCH = 1e9
"""Larger numbers are times since 1970, not durations [s]."""
_LONGEST = 64
"""Maximum length of a value; longer ones are ignored [characters]."""


def quotas(headers: Mapping[str, str]) -> tuple[Quota, ...]:
    """Return the rate limits in the headers of a reply; empty if there are none."""
    found: dict[str, dict[str, str]] = {}
    for name, value in _raw(headers):
        if (known := _kind_and_what(name)) is not None and len(value) <= _LONGEST:
            found.setdefault(known[0], {})[known[1]] = value.decode("utf-8", "replace").strip()
    if not found:
        return ()
    date = headers.get("date", "")
    read = (_quota(kind, values, date) for kind, values in found.items())
    return tuple(quota for quota in read if quota is not None)


def _raw(headers: Any) -> Iterable[tuple[bytes, bytes]]:  # noqa: ANN401 - a mapping, or the headers of httpx2
    """Return names and values from the raw list of the HTTP library, which is 10 times faster than its mapping."""
    raw = getattr(headers, "raw", None)
    if raw is not None:
        return cast("list[tuple[bytes, bytes]]", raw)
    return [(name.encode("utf-8", "replace"), str(value).encode("utf-8", "replace")) for name, value in headers.items()]


def _quota(kind: str, values: Mapping[str, str], date: str) -> Quota | None:
    remaining, seconds = _number(values.get("remaining", "")), _seconds(values.get("reset", ""), date)
    if remaining is None or seconds is None:
        return None
    limit = _number(values.get("limit", ""))
    # A limit of 0 would hold every request, and is rather unknown.
    return Quota(kind, limit or None, remaining, seconds)


def _number(text: str) -> float | None:
    return float(text) if _NUMBER.fullmatch(text) else None


def _seconds(text: str, date: str) -> float | None:
    """Return the time until a limit is reset [s]; None if it is unreadable."""
    if (number := _number(text)) is not None:
        if number < _EPOCH:
            return number
        return max((number / 1000 if number >= _EPOCH * 1000 else number) - _now(date).timestamp(), 0.0)
    if _DURATION.fullmatch(text):
        return sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text) if _NUMBER.fullmatch(number))
    try:
        then = datetime.fromisoformat(text)
    except ValueError:
        return None
    then = then if then.tzinfo else then.replace(tzinfo=UTC)
    return max((then - _now(date)).total_seconds(), 0.0)


def _now(date: str) -> datetime:
    """Return the current time, by the server's clock if the headers contain it."""
    return _date(date) or datetime.now(UTC)


@lru_cache(maxsize=16)
def _date(text: str) -> datetime | None:
    try:
        date = parsedate_to_datetime(text)
    except (TypeError, ValueError, IndexError, OverflowError):
        return None
    return date if date.tzinfo else date.replace(tzinfo=UTC)


@lru_cache(maxsize=512)
def _kind_and_what(name: bytes) -> tuple[str, str] | None:
    """Return the kind of limit in a header, and the reported property; None for any other header."""
    match = _NAME.fullmatch(name[:_LONGEST].decode("ascii", "replace").lower())
    if match is None:
        return None
    kind, what = match["kind"] or match["kind2"], match["what"] or match["what2"]
    return kind.replace("-", "_"), what

"""Read the response headers that say whether and when to retry; implausible values are ignored."""

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

_BUSY = {408, 409, 429}
_SERVER_ERROR = 500


def is_retryable(status: int, headers: Mapping[str, str]) -> bool:
    """Return whether a request that failed with a status may succeed later, by the same rules as in the SDKs."""
    match headers.get("x-should-retry"):
        case "true":
            return True
        case "false":
            return False
        case _:
            return status in _BUSY or status >= _SERVER_ERROR


def requested_wait(headers: Mapping[str, str]) -> float | None:
    """Return the wait that a server requests [s], possibly infinite; None if none above 0 is requested."""
    wait = _number(headers.get("retry-after-ms"), 1_000)
    if wait is None:
        text = headers.get("retry-after")
        wait = _number(text, 1)
        if wait is None and text is not None:
            wait = _until(text, headers.get("date"))
    return wait if wait is not None and wait > 0 else None


def _number(text: str | None, per_second: int) -> float | None:
    try:
        number = float(text or "") / per_second
    except ValueError:
        return None
    return None if math.isnan(number) else number


def _until(text: str, now: str | None) -> float | None:
    """Return the time until an HTTP date, by the clock of the server if the headers contain its time [s]."""
    then = _date(text)
    if then is None:
        return None
    return (then - (_date(now or "") or datetime.now(UTC))).total_seconds()


def _date(text: str) -> datetime | None:
    try:
        date = parsedate_to_datetime(text)
    except (TypeError, ValueError, IndexError, OverflowError):
        return None
    return date if date.tzinfo else date.replace(tzinfo=UTC)

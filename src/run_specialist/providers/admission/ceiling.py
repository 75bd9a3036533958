"""The maximum number of concurrent requests to one endpoint and key that a caller allows."""

import os

from run_specialist.errors import UsageError

VARIABLE = "SPECIALIST_REQUESTS_AT_ONCE"
"""Environment variable with the number, if the caller gives none."""
_MOST_DIGITS = 9


def ceiling(given: int | None) -> int | None:
    """Return the number given by the caller, otherwise by the environment; None = any number.

    Raises UsageError if it is not an integer of at least 1.
    """
    if given is not None:
        if type(given) is not int or given < 1:
            raise UsageError(f"requests_at_once: must be an integer of at least 1, got {given!r}")
        return given
    text = os.environ.get(VARIABLE, "").strip()
    if not text:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS and int(text) >= 1):
        raise UsageError(f"{VARIABLE}: must be an integer of at least 1, got {text[:40]!r}")
    return int(text)

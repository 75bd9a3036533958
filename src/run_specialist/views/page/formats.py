"""Formatting for the report: numbers, durations, times, and untrusted text without misleading characters."""

import json
import re
from datetime import UTC, datetime

MOST_CHARACTERS = 200_000
"""Maximum length of a text in the report."""
SECOND, MINUTE, HOUR, DAY = 1, 60, 3_600, 86_400
FEW = 10
"""Shorter durations have one decimal [s]."""

_STEPS = (0.1, 0.2, 0.5, 1, 2, 3, 5, 10, 15, 20, 30, 60, 120, 180, 300, 600, 900, 1_800, HOUR, 2 * HOUR, 6 * HOUR, DAY)
"""Possible distances between ticks [s]."""

_ODD = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff]")
_NAMES = {0x00: "NUL", 0x07: "BEL", 0x08: "BS", 0x0D: "CR", 0x1B: "ESC", 0x7F: "DEL"}


def legible(text: str) -> str:
    """Return a text with visible names in place of control, bidirectional and invisible characters."""
    return _ODD.sub(lambda found: _character_name(ord(found[0])), text.replace("\r\n", "\n"))


def _character_name(code: int) -> str:
    return f"\u27e8{_NAMES.get(code, f'U+{code:04X}')}\u27e9"


def pretty(value: object) -> str:
    """Return a value as indented JSON."""
    return json.dumps(value, ensure_ascii=False, indent=2, default=str)


def brief(value: object, most: int) -> str:
    """Return a value as JSON on one line, cut to `most` characters."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= most else f"{text[: most - 1]}…"


def lasted(seconds: float) -> str:
    """Return a duration as `4 ms`, `1.2 s`, `42 s`, `3 min 5 s`, `2 h 10 min` or `3 days 4 h`."""
    if seconds < SECOND:
        return f"{seconds * 1_000:.0f} ms"
    if seconds < FEW:
        return f"{seconds:.1f} s"
    for unit, name, part, parts in ((DAY, "day", HOUR, "h"), (HOUR, "h", MINUTE, "min"), (MINUTE, "min", SECOND, "s")):
        # Round first, to avoid `1 min 60 s`.
        whole, rest = divmod(round(seconds / part), unit // part)
        if whole:
            plural = "s" if name == "day" and whole > 1 else ""
            return f"{whole} {name}{plural}" + (f" {rest} {parts}" if rest else "")
    return f"{seconds:.0f} s"


def clock(seconds: float) -> str:
    """Return a working time as `4.2 s`, `1:02` or `1:02:03`."""
    if seconds < MINUTE:
        return f"{seconds:.1f}".removesuffix(".0") + " s"
    minutes, rest = divmod(int(seconds), MINUTE)
    hours, minutes = divmod(minutes, MINUTE)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def moment(at: float) -> str:
    """Return a time in readable form, in UTC.

    at: [seconds since 1970].
    """
    return f"{_when(at):%Y-%m-%d %H:%M} UTC"


def stamp(at: float) -> str:
    """Return a time as ISO 8601 in UTC.

    at: [seconds since 1970].
    """
    return f"{_when(at):%Y-%m-%dT%H:%M:%SZ}"


def _when(at: float) -> datetime:
    return datetime.fromtimestamp(at, UTC)


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, e.g. `1 turn` or `2 turns`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def ticks(seconds: float, most: int = 6) -> list[float]:
    """Return round times from 0 to `seconds` for an axis [s].

    most: maximum number of ticks, including 0.
    """
    step = next((one for one in _STEPS if seconds / one < most), seconds / (most - 1) or 1)
    return [round(number * step, 3) for number in range(int(seconds / step) + 1)]

"""Format numbers, times and item names for `specialists map`."""

from collections.abc import Iterable, Mapping
from typing import Any

from run_specialist.budget import units
from run_specialist.cli.console import printable

_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400
_TELLING = ("path", "name", "title", "id", "key", "question")
"""Fields that usually name an item, the best first."""
_LONGEST_LABEL = 200


def duration(seconds: float) -> str:
    """Return a time in one or two units, e.g. `0.4 s`, `31 s`, `8 min`, `2 h 5 min`, `3 d 4 h`."""
    if seconds < 10:  # noqa: PLR2004 - one digit
        return f"{seconds:.1f} s" if seconds < 9.95 else "10 s"  # noqa: PLR2004 - rounds to 10.0
    if seconds < 2 * _MINUTE:
        return f"{seconds:.0f} s"
    minutes = round(seconds / _MINUTE)
    if minutes < 60:  # noqa: PLR2004 - an hour
        return f"{minutes} min"
    if seconds < _DAY:
        return _two(divmod(minutes, 60), "h", "min")
    return _two(divmod(round(seconds / _HOUR), 24), "d", "h")


def _two(parts: tuple[int, int], first: str, second: str) -> str:
    return f"{parts[0]} {first}" + (f" {parts[1]} {second}" if parts[1] else "")


def counted(number: int, noun: str = "item") -> str:
    """Return a number with its noun, e.g. `1 item` or `1,200 items`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def rate(per_second: float, noun: str = "item") -> str:
    """Return a speed in the unit that gives a readable number, e.g. `4.1 items a minute`."""
    for seconds, unit in ((1, "second"), (_MINUTE, "minute"), (_HOUR, "hour")):
        number = per_second * seconds
        if number >= 2 or unit == "hour":  # noqa: PLR2004 - `1 items` would be wrong, and a rate of one is slow
            article = "an" if unit == "hour" else "a"
            return f"{number:,.{0 if number >= 10 else 1}f} {noun}s {article} {unit}"  # noqa: PLR2004 - two digits
    raise AssertionError  # the last unit always returns


def label(given: Any, question: str = "") -> str:  # noqa: ANN401 - an input of a batch
    """Return a short name of an item on one line: an identifying field, or its text."""
    text: object = given
    if isinstance(given, Mapping):
        named = [given[key] for key in _TELLING if isinstance(given.get(key), str | int) and str(given[key]).strip()]
        texts = [value for value in given.values() if isinstance(value, str) and value.strip()]
        text = next(iter([*named, *texts]), question)
    return printable(" ".join(str(text).split()))[:_LONGEST_LABEL]


def fitting(parts: Iterable[str], width: int, before: str = "", between: str = " · ") -> str:
    """Return the parts that fit the width, skipping those that do not; the first is always included."""
    from rich.cells import cell_len  # noqa: PLC0415 - fast `--help`

    line, is_first = before, True
    for part in filter(None, parts):
        longer = line + ("" if is_first else between) + part
        if is_first or cell_len(longer) <= width:
            line, is_first = longer, False
    return line


def spread(low: float, high: float) -> str:
    """Return a range of dollars, e.g. `$2.10 to $4.40`, or one amount if both look the same."""
    least, most = units.dollars(low), units.dollars(high)
    return least if least == most else f"{least} to {most}"

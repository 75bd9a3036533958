"""Parts that all pages share: templates, formats, geometry of charts."""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, Any

from run_specialist.budget import counted, dollars

if TYPE_CHECKING:
    from jinja2 import Template


MOST_CHARACTERS = 200_000
"""Maximum length of a text in the report."""
SECOND, MINUTE, HOUR, DAY = 1, 60, 3_600, 86_400
FEW = 10
"""Shorter durations have one decimal [s]."""

# Possible distances between ticks [s].
_STEPS = (0.1, 0.2, 0.5, 1, 2, 3, 5, 10, 15, 20, 30, 60, 120, 180, 300, 600, 900, 1_800, HOUR, 2 * HOUR, 6 * HOUR, DAY)

_ODD = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff]")
_NAMES = {0x00: "NUL", 0x07: "BEL", 0x08: "BS", 0x0D: "CR", 0x1B: "ESC", 0x7F: "DEL"}


def legible(text: str) -> str:
    """Return a text with visible names in place of control, bidirectional and invisible characters."""

    def name(found: re.Match[str]) -> str:
        code = ord(found[0])
        return f"\u27e8{_NAMES.get(code, f'U+{code:04X}')}\u27e9"

    return _ODD.sub(name, text.replace("\r\n", "\n"))


def pretty(value: object) -> str:
    """Return a value as indented JSON."""
    return json.dumps(value, ensure_ascii=False, indent=2, default=str)


def cut(text: str, most: int) -> str:
    """Return the beginning of a text, with at most this many characters."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def line(text: str, most: int) -> str:
    """Return the beginning of a text on one line."""
    return cut(" ".join(text.split()), most)


def brief(value: object, most: int) -> str:
    """Return a value as JSON on one line, cut to `most` characters."""
    return cut(json.dumps(value, ensure_ascii=False, default=str), most)


def signed(value: float | None, digits: int = 2) -> str:
    """Return a difference with its sign, and with more digits if it would be shown as 0."""
    while value and digits < 6 and not round(value, digits):  # noqa: PLR2004 - a smaller one is 0 for people
        digits += 1
    if value is None:
        return "–"
    return f"{value:+.{digits}f}" if round(value, digits) else f"{0:.{digits}f}"


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
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M} UTC"


def iso(at: float) -> str:
    """Return a time in UTC as ISO 8601, with milliseconds.

    at: [seconds since 1970].
    """
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def total(values: Iterable[float | None]) -> float | None:
    """Return the sum; None if any value is unknown."""
    known = [*values]
    return None if None in known else sum(one for one in known if one is not None)


def ticks(seconds: float, most: int = 6) -> list[float]:
    """Return round times from 0 to `seconds` for an axis [s].

    most: maximum number of ticks, including 0.
    """
    step = next((one for one in _STEPS if seconds / one < most), seconds / (most - 1) or 1)
    return [round(number * step, 3) for number in range(int(seconds / step) + 1)]


@dataclass(frozen=True)
class HtmlPage:
    """A page of this package; its template is compiled when it is first rendered."""

    name: str
    """Base name of the template, its style and its script."""
    filters: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    """Filters of the template beside the formats of this module, by name."""
    styles: tuple[str, ...] = ()
    """Base names of further styles, which precede the page's own."""

    def render(self, values: Mapping[str, Any]) -> str:
        """Return the page with these values as one document; all untrusted text is escaped."""
        return self._template.render(values)

    @cached_property
    def _template(self) -> "Template":
        from jinja2 import Environment, StrictUndefined  # noqa: PLC0415 - only pages need it
        from markupsafe import Markup  # noqa: PLC0415 - only pages need it

        def finalize(value: object) -> object:
            return legible(value) if isinstance(value, str) and not isinstance(value, Markup) else value

        page = Environment(
            autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, finalize=finalize
        )
        formats = (clock, counted, iso, lasted, line, moment, path, percent, pretty, signed, ticks, total, dollars)
        page.filters |= {**{one.__name__: one for one in formats}, **self.filters}
        page.tests["code"] = is_code
        style = "".join(_resource(f"{one}.css") for one in (*self.styles, self.name))
        script = _resource(f"{self.name}.js")
        parts = {"style": Markup(style), "script": Markup(script)}  # noqa: S704 - files of this package
        from base64 import b64encode  # noqa: PLC0415 - fast `--help`
        from hashlib import sha256  # noqa: PLC0415 - as above

        # Only this style and this script, and no network access.
        hashes = {
            name: b64encode(sha256(text.encode()).digest()).decode()
            for name, text in (("style-src", style), ("script-src", script))
        }
        allowed = [f"{name} 'sha256-{digest}'" for name, digest in hashes.items()]
        policy = "; ".join(["default-src 'none'", *allowed, "base-uri 'none'", "form-action 'none'"])
        page.globals |= {**parts, "policy": policy}
        return page.from_string(_resource(f"{self.name}.html.j2"))


def _resource(name: str) -> str:
    from importlib.resources import files  # noqa: PLC0415 - only pages need it

    return files(__package__).joinpath(name).read_text(encoding="utf-8")


# Width and height of the coordinate system of paths.
_BOX = 1_000


def percent(value: float, whole: float) -> str:
    """Return a share of a whole as an SVG percentage."""
    return f"{100 * value / whole if whole > 0 else 0:.2f}%"


def path(points: Sequence[Sequence[float]], seconds: float, top: float) -> str:
    """Return a line through points as SVG path data.

    points: times [s] and shares, in order.
    seconds: the width of the chart.
    top: the share at its upper edge.
    """
    placed = (
        (round(_BOX * at / seconds) if seconds > 0 else 0, round(_BOX * (1 - share / top))) for at, share in points
    )
    return "M" + " ".join(f"{across} {down}" for (across, down), _ in groupby(placed))


_PROSE = re.compile(r"(\.(md|markdown|txt|rst|adoc|html?|pdf|csv|eml)|^[^.]*)(:\d[\d:-]*)?$", re.IGNORECASE)


def is_code(source: str) -> bool:
    """Return whether a quote from this source is shown like code: that of a file which does not contain prose."""
    return "://" not in source and not _PROSE.search(source)


def quotes_in(outcome: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return source, quote and verification of each piece of evidence in a stored outcome; skip malformed ones."""
    found = outcome.get("evidence")
    entries = [one for one in found if isinstance(one, Mapping)] if isinstance(found, list | tuple) else []
    return [
        {"source": str(one.get("source", "")), "quote": str(one.get("quote", "")), "verified": one.get("verified")}
        for one in entries
    ]

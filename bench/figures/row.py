"""Rows of the result tables: the compared series and the target."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

FAILED = "failed"
Unit = Literal["ms", "s", "MB", "tokens", ""]
_SCALE: dict[Unit, float] = {"ms": 1000.0}
"""Factors from the units of the series (times are in seconds) to the units of the table."""


@dataclass(frozen=True, slots=True)
class Row:
    """Definition of one table row."""

    what: str
    """Label, including the measured sizes."""
    unit: Unit
    ours: str
    """Series of run-specialist."""
    other: str | None = None
    """Series to compare it with."""
    at_most: float | None = None
    """Target: maximum of our value in its unit, or of the ratio."""
    of_ratio: bool = False
    """Whether the target applies to the ratio."""
    exactly: bool = False
    """Whether the value must equal the target."""
    full: bool = True
    """Whether the target applies to the measured sizes."""


@dataclass(frozen=True, slots=True)
class Line:
    """A row with its results."""

    row: Row
    ours: float | None
    other: float | None
    failed: str = ""
    """Reason for missing results."""

    @property
    def ratio(self) -> float | None:
        """Our value divided by the other one."""
        return None if self.ours is None or not self.other else self.ours / self.other

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None if there is no target or no value."""
        value = self.ratio if self.row.of_ratio else self.ours
        if value is None or self.row.at_most is None or not self.row.full:
            return None
        return value == self.row.at_most if self.row.exactly else value <= self.row.at_most

    def cells(self) -> tuple[str, ...]:
        """Return the cells of the table: measurement, run-specialist, other, ratio, target, met."""
        unit = self.row.unit
        if self.failed:
            return self.row.what, FAILED, "", "", _target(self.row), FAILED
        if self.ours is None:
            return self.row.what, "not measured", "", "", _target(self.row), "-"
        ratio = "-" if self.ratio is None else f"{self.ratio:.2f}"
        verdict = {True: "yes", False: "**no**", None: "-" if self.row.full else "not this size"}[self.met]
        return self.row.what, _shown(self.ours, unit), _shown(self.other, unit), ratio, _target(self.row), verdict


def line(row: Row, series: Mapping[str, Sequence[float]], failures: Mapping[str, str]) -> Line:
    """Return a row with the medians of its series.

    failures: Reasons for failed laps, by the common prefix of the missing series.
    """
    names = [name for name in (row.ours, row.other) if name is not None]
    for start, reason in failures.items():
        if any(name.startswith(start) for name in names):
            return Line(row, None, None, reason)
    return Line(row, *(_median(series.get(name or "", ()), row.unit) for name in (row.ours, row.other)))


def _median(values: Sequence[float], unit: Unit) -> float | None:
    return median(values) * _SCALE.get(unit, 1.0) if values else None


def _target(row: Row) -> str:
    if row.at_most is None:
        return "-"
    sign = "=" if row.exactly else "<="
    return f"{sign} {row.at_most:.2f} x" if row.of_ratio else f"{sign} {_shown(row.at_most, row.unit)}"


def _shown(value: float | None, unit: Unit) -> str:
    if value is None:
        return "-"
    whole = unit in {"", "tokens"} or value >= 10  # noqa: PLR2004 - three figures are enough
    number = f"{value:,.{0 if whole else 2}f}"
    return f"{number} {unit}".strip()

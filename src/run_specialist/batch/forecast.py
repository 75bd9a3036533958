"""Forecast time and cost of a batch from past runs; pure functions."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, fsum
from statistics import median
from typing import Self

from run_specialist.store.stored import PastRun

HIGH = 0.9
"""Quantile of past runs that is the high figure."""
ANSWERED = frozenset({"answered", "landed", "partial"})
"""Statuses of runs that were not interrupted, so that their cost and time are typical."""


MOST_RUNS = 200
"""Maximum number of past runs that count; the newest are used."""
ENOUGH_RUNS = 5
"""With at least this many runs of the current version of the file, runs of other versions do not count."""


@dataclass(frozen=True, slots=True)
class Typical:
    """The median and the high figure of past runs."""

    median: float
    high: float
    """Nine of ten runs took at most this."""
    mean: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Self:
        """Return the figures of at least one run."""
        ordered = sorted(values)
        return cls(median(ordered), ordered[ceil(HIGH * len(ordered)) - 1], fsum(ordered) / len(ordered))


@dataclass(frozen=True, slots=True)
class Forecast:
    """The forecast for one item and for all items; the figures are None without past runs."""

    runs: int
    """Number of past runs."""
    items: int | None
    """Number of items; None if it is not known."""
    calls: Typical | None = None
    """Tool calls of an item."""
    seconds: Typical | None = None
    """Time of an item [s]."""
    cost_usd: Typical | None = None
    """Cost of an item; None also if a price is not known [USD]."""

    @property
    def total_cost_low(self) -> float | None:
        """Cost of all items if each costs the median [USD]."""
        return None if self.items is None or self.cost_usd is None else self.items * self.cost_usd.median

    @property
    def total_cost_high(self) -> float | None:
        """Cost of all items if each costs as much as the 90th percentile of past runs [USD]."""
        return None if self.items is None or self.cost_usd is None else self.items * self.cost_usd.high

    def total_seconds(self, at_once: int) -> float | None:
        """Return the time of all items with this many in parallel [s]."""
        if self.items is None or self.seconds is None:
            return None
        # The last round is as long as one item, even if there are few of them.
        return max(self.items * self.seconds.mean / at_once, self.seconds.mean if self.items else 0.0)


def forecast(past: Sequence[PastRun], items: int | None) -> Forecast:
    """Return the forecast for some items; past runs without an answer do not count.

    items: number of items; None = unknown.
    """
    outcomes = [run.outcome for run in past if run.outcome.get("status") in ANSWERED]
    if not outcomes:
        return Forecast(0, items)
    costs = [one["cost_usd"] for one in outcomes]
    return Forecast(
        len(outcomes),
        items,
        Typical.of([one["tool_calls"]["used"] for one in outcomes]),
        Typical.of([one["duration_s"] for one in outcomes]),
        None if None in costs else Typical.of(costs),
    )


def alike(past: Sequence[PastRun], model: str, digest: str) -> Sequence[PastRun]:
    """Return the past runs of a model; only those of the current version of the file if there are enough.

    past: newest first.
    digest: SHA-256 of the file.
    """
    runs = [run for run in past if run.outcome.get("model") == model]
    current = [run for run in runs if run.digest == digest]
    return (current if len(current) >= ENOUGH_RUNS else runs)[:MOST_RUNS]

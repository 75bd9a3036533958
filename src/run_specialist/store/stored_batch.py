"""Frozen dataclasses of a stored batch and its items."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class BatchTotals:
    """Counts and sums over the items of a batch."""

    counts: Mapping[str, int] = field(default_factory=dict)
    """Items of the newest call by status, in the order of `ITEM_STATUSES`; statuses without items are missing."""
    earlier: int = 0
    """Items that only earlier calls had."""
    runs: int = 0
    """Number of stored runs, including earlier calls; the following fields count the same runs."""
    cost_usd: float = 0.0
    """Known cost [USD]."""
    unknown_costs: int = 0
    """Number of runs with unknown cost."""
    tool_calls: int = 0
    worked_s: float = 0.0
    """Working time of all runs together [s]."""
    started_at: float | None = None
    """Start of the first run; None without runs [seconds since 1970]."""
    ended_at: float | None = None
    """Latest end of a run; None if none has ended [seconds since 1970]."""

    @property
    def items(self) -> int:
        """Number of items of the newest call."""
        return sum(self.counts.values())


@dataclass(frozen=True, slots=True)
class ItemResult:
    """An item with its status and result."""

    number: int
    """Place in the newest call, from 1."""
    run_id: str
    input: Any
    """A JSON value."""
    question: str
    status: str
    """One of `ITEM_STATUSES`."""
    outcome: Mapping[str, Any] | None
    """Outcome of its run, as `--json` prints it; None while there is none."""
    error: str | None
    """Error of the item itself, e.g. why it has no run."""
    tool_calls: int = 0
    cost_usd: float | None = None
    """Cost so far; None without a run, or if a price is unknown [USD]."""
    seconds: float | None = None
    """Working time of the run; None if it is unknown [s]."""
    started_at: float | None = None
    """Start of the run; None without one [seconds since 1970]."""

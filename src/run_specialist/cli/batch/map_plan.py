"""Describe what a call of `specialists map` will do: its items, those with an outcome, and the cost of the others."""

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from run_specialist.budget.units import dollars
from run_specialist.cli.batch.map_progress import TELLING
from run_specialist.cli.batch.map_units import counted, duration, label, spread
from run_specialist.cli.console import print_json, print_line

if TYPE_CHECKING:
    from run_specialist.batch.batch import Batch
    from run_specialist.batch.forecast import Forecast, Typical
    from run_specialist.batch.item import Item
    from run_specialist.cli.batch.map_items import MapRequest


SHOWN = 3
"""Number of questions that a dry run shows."""


@dataclass(frozen=True)
class MapPlan:
    """A batch that has not begun, and its forecast."""

    batch: "Batch"
    asked: "MapRequest"
    earlier: int
    """Number of items that already have an outcome and are not asked again."""
    forecast: "Forecast"
    """Forecast for the items without an outcome."""
    at_once: int
    spent: float
    """Cost of the earlier runs of the batch [USD]."""

    @property
    def rest(self) -> int | None:
        """Number of items to be asked about."""
        return None if self.asked.count is None else self.asked.count - self.earlier

    @property
    def most(self) -> float | None:
        """Maximum cost of the remaining items, within the limit; None if it is unknown [USD]."""
        limit = self.batch.cost_limit
        left = None if limit is None else max(limit - self.spent, 0.0)
        high = self.forecast.total_cost_high
        if high is None or left is None:
            return high if left is None else left
        return min(high, left)

    def __str__(self) -> str:
        return " · ".join(self._parts())

    def as_json(self) -> dict[str, Any]:
        """Return the plan as JSON values."""
        forecast = self.forecast
        return {
            "batch": self.batch.id,
            "items": self.asked.count,
            "earlier": self.earlier,
            "at_once": self.at_once,
            "cost_limit": self.batch.cost_limit,
            "first": [{"number": one.number, "input": one.input, "question": one.question} for one in self._first()],
            "forecast": {
                "runs": forecast.runs,
                "tool_calls": _figures(forecast.calls),
                "seconds": _figures(forecast.seconds),
                "cost_usd": _figures(forecast.cost_usd),
                "total_seconds": _rounded(forecast.total_seconds(self.at_once)),
                "total_cost_usd": _rounded(forecast.total_cost_low),
                "total_cost_usd_90": _rounded(forecast.total_cost_high),
            },
        }

    def show(self, *, json: bool) -> None:
        """Print the plan and the first questions."""
        if json:
            print_json(self.as_json())
            return
        print_line(str(self))
        if self.forecast.runs:
            print_line(f"an item took {self._item('median')} (median), and nine of ten at most {self._item('high')}")
        for one in self._first():
            print_line(f"\n{one.number}  {label(one.input)}")
            print_line(textwrap.indent(one.question, "    "))
        print_line(f"\nbatch {self.batch.id}; nothing was sent")

    def _item(self, figure: str) -> str:
        """Return what a typical past run used, e.g. `4 tool calls, 31 s, $0.04`.

        figure: `median`, or `high`: the 90th percentile.
        """
        forecast = self.forecast
        calls, seconds, cost = (
            None if one is None else getattr(one, figure)
            for one in (forecast.calls, forecast.seconds, forecast.cost_usd)
        )
        parts = [
            None if calls is None else counted(round(calls), "tool call"),
            None if seconds is None else duration(seconds),
            dollars(cost) if cost else None,
        ]
        return ", ".join(filter(None, parts))

    def _first(self) -> list["Item"]:
        return [*islice(self.asked.items(), SHOWN)]

    def _parts(self) -> Iterator[str]:
        items = self.asked.count
        if items is None:
            yield "items as they come"
        elif self.earlier:
            yield f"{counted(items)}, {self.earlier:,} of them with an outcome already"
        else:
            yield counted(items)
        if self.rest == 0:
            yield "nothing to ask"
            return
        forecast = self.forecast
        if not forecast.runs:
            yield f"no past runs: the first {TELLING} items give a forecast"
            return
        cost, seconds = forecast.cost_usd, forecast.seconds
        each = f" and {dollars(cost.high)}" if cost is not None and cost.high else ""
        if seconds is not None:
            yield f"9 of 10 past runs took at most {duration(seconds.high)}{each}"
        if self.rest is not None:
            yield ", ".join(self._totals())

    def _totals(self) -> Iterator[str]:
        forecast = self.forecast
        low, high = forecast.total_cost_low, forecast.total_cost_high
        if low is not None and high:
            most = self.batch.cost_limit
            limit = "" if most is None else f", at most {dollars(most)}"
            yield f"about {spread(low, high)}{limit}"
        if (seconds := forecast.total_seconds(self.at_once)) is not None:
            yield f"{duration(seconds)} at {self.at_once} at once"


def _figures(typical: "Typical | None") -> dict[str, float] | None:
    if typical is None:
        return None
    return {"median": round(typical.median, 8), "nine_of_ten": round(typical.high, 8)}


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 8)

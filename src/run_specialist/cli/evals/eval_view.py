"""Announce what a call of `specialists eval` will do, as one line or as JSON values."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from run_specialist.cli.batch.map_units import counted, duration, spread
from run_specialist.evals.eval_forecast import EvalForecast
from run_specialist.evals.judge_plan import has_judges
from run_specialist.evals.reuse import ReusePlan


@dataclass(frozen=True)
class AnnouncedEval:
    """A planned eval, with its forecast."""

    reused: ReusePlan
    forecast: EvalForecast
    at_once: int
    cost_limit: float | None

    @property
    def rest(self) -> int:
        """Number of runs to be made."""
        return len(self.reused.plan.runs) - len(self.reused.earlier)

    @property
    def most(self) -> float | None:
        """Maximum cost of the remaining runs, with judges if their cost is known; None if it is unknown [USD]."""
        cost = self.forecast.cost if self.forecast.is_known else None
        if cost is None:
            return None
        judges = self.forecast.judge_cost
        most = cost[1] + (0.0 if judges is None else judges[1])
        return most if self.cost_limit is None else min(most, self.cost_limit)

    def __str__(self) -> str:
        return " · ".join(self._parts())

    def as_json(self) -> dict[str, Any]:
        """Return the plan as JSON values."""
        plan, cost, judges = self.reused.plan, self.forecast.cost, self.forecast.judge_cost
        return {
            "eval": plan.eval_id,
            "specialist": plan.specialist,
            "cases": [one.name for one in plan.cases.cases],
            "variants": [one.variant.name for one in plan.subjects],
            "repeat": plan.repeat,
            "runs": len(plan.runs),
            "earlier": len(self.reused.earlier),
            "stale": self.reused.stale,
            "forecast": {
                "total_cost_usd": None if cost is None else round(cost[0], 8),
                "total_cost_usd_90": None if cost is None else round(cost[1], 8),
                "total_seconds": self.forecast.seconds(self.at_once),
                "judges_cost_usd": None if judges is None else round(judges[0], 8),
                "judges_cost_usd_90": None if judges is None else round(judges[1], 8),
            },
        }

    def _parts(self) -> Iterator[str]:
        plan = self.reused.plan
        yield " × ".join(self._factors())
        earlier, stale = len(self.reused.earlier), self.reused.stale
        if earlier:
            yield f"{earlier:,} of {counted(len(plan.runs), 'run')} stored already"
        if stale:
            yield f"{counted(stale, 'run')} again, because files have changed"
        if not self.rest:
            yield "nothing to ask"
            return
        yield from self._expected()
        if has_judges(plan):
            judges = self.forecast.judge_cost
            yield "judges cost extra" if judges is None else f"judges about {spread(*judges)}"

    def _factors(self) -> Iterator[str]:
        plan = self.reused.plan
        yield counted(len(plan.cases.cases), "case")
        if len(plan.subjects) > 1:
            yield counted(len(plan.subjects), "variant")
        if plan.repeat > 1:
            yield f"{plan.repeat} times"

    def _expected(self) -> Iterator[str]:
        if not self.forecast.is_known:
            yield "no past runs to forecast from"
            return
        cost = self.forecast.cost
        if cost is not None and cost[1]:
            yield f"about {spread(*cost)}"
        if (seconds := self.forecast.seconds(self.at_once)) is not None:
            yield f"{duration(seconds)} at {self.at_once} at once"

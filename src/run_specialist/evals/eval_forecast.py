"""What the runs of an eval may take, from past runs of the same specialist and model."""

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from run_specialist.batch.forecast import Forecast, alike, forecast
from run_specialist.evals.plan import EvalPlan, PlannedRun
from run_specialist.evals.stored_runs import StoredRuns

if TYPE_CHECKING:
    from run_specialist.api.runner import Runner


@dataclass(frozen=True)
class EvalForecast:
    """What the runs that are going to be made may take together."""

    parts: tuple[Forecast, ...]
    """By specialist file and model."""

    @property
    def is_known(self) -> bool:
        """Whether there are past runs of each file and model."""
        return all(one.runs for one in self.parts)

    @property
    def cost(self) -> tuple[float, float] | None:
        """Cost by the median of past runs, and by the dearest of nine in ten; None while unknown [USD]."""
        low, high = [one.total_cost_low for one in self.parts], [one.total_cost_high for one in self.parts]
        if None in low or None in high:
            return None
        return sum(filter(None, low)), sum(filter(None, high))

    @property
    def typical_cost(self) -> float:
        """Cost of a run, nine of ten cost at most this; 0 = unknown [USD]."""
        return max((one.cost_usd.high for one in self.parts if one.cost_usd is not None), default=0.0)

    def seconds(self, at_once: int) -> float | None:
        """Return the time of all runs, so many at once; None while it is unknown [s]."""
        parts = [one.total_seconds(at_once) for one in self.parts]
        return None if None in parts else sum(filter(None, parts))


def eval_forecast(plan: EvalPlan, earlier: Collection[str], runner: "Runner", known: StoredRuns) -> EvalForecast:
    """Return what is expected of the runs that are not used again.

    earlier: the ids of those that are.
    """
    return EvalForecast(tuple(_parts([one for one in plan.runs if one.run_id not in earlier], runner, plan, known)))


def _parts(runs: Iterable[PlannedRun], runner: "Runner", plan: EvalPlan, known: StoredRuns) -> Iterable[Forecast]:
    counts = Counter((one.asked.file.name, one.asked.file.digest, runner.batches.model_of(one.asked)) for one in runs)
    for (name, digest, model), count in counts.items():
        past = [] if known.store is None else known.store.past(name, plan.project)
        yield forecast(alike(past, model, digest), count)

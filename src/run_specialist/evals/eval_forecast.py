"""Forecast time and cost of an eval from past runs of the same specialist and model."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from run_specialist.batch.forecast import Forecast, alike, forecast
from run_specialist.errors import RunSpecialistError
from run_specialist.evals.eval_plan import EvalPlan, PlannedRun
from run_specialist.evals.judge_files import find_judge
from run_specialist.evals.past_evals import StoredRuns

if TYPE_CHECKING:
    from run_specialist.api.runner import Runner
    from run_specialist.specialist.loader import SpecialistFile


@dataclass(frozen=True)
class EvalForecast:
    """The forecast for all runs to be made."""

    parts: tuple[Forecast, ...]
    """Forecasts by specialist file and model."""
    judges: tuple[Forecast, ...] = ()
    """Forecasts of the judges of these runs, by file and model; judges of stored answers are not counted."""

    @property
    def is_known(self) -> bool:
        """Whether there are past runs for each file and model."""
        return all(one.runs for one in self.parts)

    @property
    def cost(self) -> tuple[float, float] | None:
        """Cost by the median and by the 90th percentile of past runs; None while unknown [USD]."""
        return _total(self.parts)

    @property
    def judge_cost(self) -> tuple[float, float] | None:
        """Cost of the judges by the median and by the 90th percentile of their past runs [USD]."""
        return _total(self.judges) if self.judges and all(one.runs for one in self.judges) else None

    @property
    def typical_cost(self) -> float:
        """Typical cost of a run (90th percentile); 0 = unknown [USD]."""
        return max((one.cost_usd.high for one in self.parts if one.cost_usd is not None), default=0.0)

    def seconds(self, at_once: int) -> float | None:
        """Return the time of all runs with this many in parallel; None while it is unknown [s]."""
        parts = [one.total_seconds(at_once) for one in self.parts]
        return None if None in parts else sum(filter(None, parts))


def _total(parts: Sequence[Forecast]) -> tuple[float, float] | None:
    low, high = [one.total_cost_low for one in parts], [one.total_cost_high for one in parts]
    if None in low or None in high:
        return None
    return sum(filter(None, low)), sum(filter(None, high))


def eval_forecast(
    plan: EvalPlan, earlier: Collection[str], runner: "Runner", known: StoredRuns, judging: "Runner | None" = None
) -> EvalForecast:
    """Return the forecast for the runs that are not reused, and for their judges.

    earlier: ids of the reused runs.
    judging: the runner of the judges; None = no judge is asked.
    """
    runs = [one for one in plan.runs if one.run_id not in earlier]
    asked = [(one.asked.file, runner.batches.model_of(one.asked)) for one in runs]
    judges = () if judging is None else tuple(_parts(_judges(runs, judging), plan, known))
    return EvalForecast(tuple(_parts(asked, plan, known)), judges)


def _judges(runs: Iterable[PlannedRun], runner: "Runner") -> Iterator[tuple["SpecialistFile", str]]:
    """Yield file and model of each judge of these runs; nothing if one of them has no model here."""
    from run_specialist.evals.evaluators.judging import Judge  # noqa: PLC0415 - heavy

    names = Counter(each.specialist for one in runs for each in one.case.evaluators if isinstance(each, Judge))
    try:
        asked = {name: runner.batches.asked(find_judge(runner.registry, name), "?", {}) for name in names}
    except RunSpecialistError:
        return
    for name, count in names.items():
        yield from [(asked[name].file, runner.batches.model_of(asked[name]))] * count


def _parts(asked: Iterable[tuple["SpecialistFile", str]], plan: EvalPlan, known: StoredRuns) -> Iterator[Forecast]:
    counts = Counter((file.name, file.digest, model) for file, model in asked)
    for (name, digest, model), count in counts.items():
        past = [] if known.store is None else known.store.past(name, plan.project)
        yield forecast(alike(past, model, digest), count)

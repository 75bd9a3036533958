"""Run an eval: the runs as one batch, then the judges as another, then the checks."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from run_specialist.batch.batch import Batch, Bounds
from run_specialist.batch.done import Done
from run_specialist.errors import UsageError
from run_specialist.evals.eval_plan import EvalPlan
from run_specialist.evals.eval_results import EvalResult
from run_specialist.evals.judge_plan import Judgements, JudgePlan, has_judges
from run_specialist.evals.past_evals import StoredRuns, stored_runs
from run_specialist.evals.reuse import reused
from run_specialist.evals.scoring import scored

if TYPE_CHECKING:
    from run_specialist.api.runner import Runner


def runs_batch(plan: EvalPlan, runner: "Runner", bounds: Bounds) -> Batch:
    """Return the batch of all runs."""
    return runner.batches.make_of(
        plan.row(bounds.cost_limit),
        [one.item for one in plan.runs],
        [one.asked for one in plan.runs],
        bounds,
        [one.run_id for one in plan.runs],
    )


async def result_of(plan: EvalPlan, ends: Mapping[int, Done], judgements: Judgements, known: StoredRuns) -> EvalResult:
    """Return the runs with their checks.

    ends: the ended runs, by number.
    known: the stored runs.
    """
    steps = known.steps_of([one.outcome.run_id for one in ends.values() if one.outcome is not None])
    runs = [await scored(one, ends.get(one.number), judgements.get(one.number, {}), steps) for one in plan.runs]
    cases = tuple(case.name for case in plan.cases.cases)
    return EvalResult(plan.eval_id, plan.specialist, cases, tuple(one.variant for one in plan.subjects), tuple(runs))


async def evaluate(
    plan: EvalPlan,
    make_runner: "Callable[[], Runner]",
    make_judges_runner: "Callable[[], Runner] | None" = None,
    bounds: Bounds | None = None,
    *,
    fresh: bool = False,
) -> EvalResult:
    """Run an eval without a view, and return its results.

    make_runner: returns a runner with the settings that the plan was made with.
    make_judges_runner: returns the runner of the judges; None = the same as `make_runner`.
    fresh: reuse no stored run.
    Raises UsageError.
    """
    bounds = bounds or Bounds()
    runner = make_runner()
    with stored_runs(runner.store) as known:
        plan = (await reused(plan, runner, known, fresh=fresh)).plan
    async with runner:
        batch = runs_batch(plan, runner, bounds)
        ends = {done.number: done async for done in batch}
    judgements: Judgements = {}
    if has_judges(plan):
        async with (make_judges_runner or make_runner)() as judging:
            left = None if bounds.cost_limit is None else max(bounds.cost_limit - batch.cost_usd, 0.0)
            judgements = await judged(JudgePlan(plan, ends, judging), bounds.at_once, left)
    with stored_runs(runner.store) as known:
        return await result_of(plan, ends, judgements, known)


async def judged(judges: JudgePlan, at_once: int, cost_limit: float | None) -> Judgements:
    """Ask the judges, and return their verdicts.

    cost_limit: cost limit of all judges together; None = no limit [USD].
    """
    if not judges.answers:
        return {}
    ends: dict[str, Done] = {}
    batch = judges.batch(at_once, cost_limit)
    problem = None
    try:
        async for done in batch:
            ends[done.run_id] = done
        problem = batch.problem
    except UsageError as error:
        # The runs are paid for, and their other checks hold.
        problem = str(error)
    return judges.judgements(ends, problem)

"""Make the planned runs of an eval, check them, and print the results."""

import asyncio
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from run_specialist.batch.batch import Bounds
from run_specialist.cli.batch.map_confirm import confirm
from run_specialist.cli.batch.map_run import MapDisplay, MapWorker
from run_specialist.cli.batch.map_summary import reason_of
from run_specialist.cli.batch.map_units import counted
from run_specialist.cli.batch.shared_options import MoneyOptions
from run_specialist.cli.console import is_terminal, print_json, print_line, say
from run_specialist.cli.evals.comparing import Comparing
from run_specialist.cli.evals.eval_options import CaseOptions, ResultOptions, WorkOptions
from run_specialist.cli.evals.eval_table import print_results
from run_specialist.cli.evals.eval_view import AnnouncedEval
from run_specialist.cli.evals.seen_outputs import warn_of_seen
from run_specialist.errors import StoreUnusable, UsageError
from run_specialist.evals.eval_forecast import eval_forecast
from run_specialist.evals.eval_plan import EvalPlan
from run_specialist.evals.eval_results import EvalResult
from run_specialist.evals.judge_plan import Judgements, JudgePlan, has_judges
from run_specialist.evals.kept_result import keep_result
from run_specialist.evals.past_evals import stored_runs
from run_specialist.evals.result_json import as_json
from run_specialist.evals.reuse import reused
from run_specialist.evals.running import result_of, runs_batch
from run_specialist.record.outcome import Exit

if TYPE_CHECKING:
    from run_specialist.api.runner import Runner
    from run_specialist.batch.batch import Batch
    from run_specialist.batch.done import Done

LOW_SCORE = 1
"""Exit code if a variant scores below the minimum."""


class EndedRuns:
    """Collects the runs that have ended."""

    def __init__(self) -> None:
        self.by_number: dict[int, Done] = {}
        self.by_id: dict[str, Done] = {}

    def write(self, done: "Done") -> None:
        """Record how a run ended."""
        self.by_number[done.number] = self.by_id[done.run_id] = done


class EvalWork:
    """One call of the command."""

    def __init__(
        self,
        plan: EvalPlan,
        make_runner: "Callable[[str | None], Runner]",
        cases: CaseOptions,
        results: ResultOptions,
        money: MoneyOptions,
        work: WorkOptions,
        comparing: Comparing,
    ) -> None:
        """Configure the work.

        make_runner: returns a runner for a model; None = that of each file or of the environment.
        """
        self._plan = plan
        self._make_runner = make_runner
        self._cases = cases
        self._results = results
        self._money = money
        self._work = work
        self._comparing = comparing
        self._is_interrupted = False

    def work(self, runner: "Runner") -> int:
        """Run, check and print; return the exit code."""
        announced = self._announced(runner)
        if self._work.dry_run:
            self._show(announced)
            return 0
        if not self._results.quiet:
            say(str(announced))
        confirm(announced.most, self._money)
        plan, ends = announced.reused.plan, EndedRuns()
        batch = runs_batch(plan, runner, Bounds(self._work.at_once, self._money.limit, announced.forecast.typical_cost))
        self._run(batch, runner, ends)
        plan = self._comparing.with_earlier(plan, ends.by_number)
        judgements = self._judgements(plan, ends, batch)
        with stored_runs(runner.store) as known:
            result = asyncio.run(result_of(plan, ends.by_number, judgements, known))
        result = self._comparing.completed(result)
        compared = self._comparing.compared(result)
        if self._results.json_:
            print_json(as_json(result, compared))
        else:
            print_results(result, compared)
        self._say_what_is_left(batch)
        self._keep(announced.reused.plan, as_json(result, compared), runner.store)
        self._comparing.write(result, compared, runner.store)
        options = self._comparing.options
        warn_of_seen((options.page, options.junit), runner.root, self._plan.subjects[-1].file)
        if self._is_interrupted:
            return Exit.INTERRUPTED
        return int(batch.exit_code) or self._code(result) or int(self._comparing.is_regression(compared))

    def _announced(self, runner: "Runner") -> AnnouncedEval:
        with stored_runs(runner.store) as known:
            found = asyncio.run(reused(self._plan, runner, known, fresh=self._cases.fresh))
            judging = self._make_runner(self._work.judge_model) if has_judges(found.plan) else None
            forecast = eval_forecast(found.plan, found.earlier, runner, known, judging)
        return AnnouncedEval(found, forecast, self._work.at_once, self._money.limit)

    def _show(self, announced: AnnouncedEval) -> None:
        if self._results.json_:
            print_json(announced.as_json())
            return
        print_line(str(announced))
        for one in announced.reused.plan.runs:
            state = "stored" if one.run_id in announced.reused.earlier else "to run"
            print_line(f"{state}  {one.name}")
        print_line(f"eval {announced.reused.plan.eval_id}; nothing was sent")

    def _say_what_is_left(self, batch: "Batch") -> None:
        """Print why some runs were not made, and how to continue."""
        left = batch.counts.not_run + batch.counts.aborted
        if left:
            reason = reason_of(batch, "run")
            why = f"{reason}; " if reason else ""
            say(f"{why}{counted(left, 'run')} left; repeat the same command to make them, nothing is paid for twice")

    @staticmethod
    def _keep(plan: EvalPlan, result: Mapping[str, Any], store: str | None) -> None:
        """Store the result for `specialists report`; if the store fails, only that page is missing."""
        try:
            keep_result(plan, result, store)
        except StoreUnusable as error:
            say(f"the page of this eval cannot be written later: {error}")

    def _run(self, batch: "Batch", runner: "Runner", ends: EndedRuns) -> None:
        worker = MapWorker(batch, [ends], self._shown())
        worker.work(runner)
        self._is_interrupted = self._is_interrupted or worker.interrupts.count > 0

    def _judgements(self, plan: EvalPlan, ends: EndedRuns, batch: "Batch") -> Judgements:
        """Ask the judges about all answers."""
        if not has_judges(plan) or self._is_interrupted:
            return {}
        runner, said = self._make_runner(self._work.judge_model), EndedRuns()
        judges = JudgePlan(plan, ends.by_number, runner)
        if not judges.answers:
            return {}
        limit = self._money.limit
        judging = judges.batch(self._work.at_once, None if limit is None else max(limit - batch.cost_usd, 0.0))
        problem = None
        try:
            self._run(judging, runner, said)
            problem = judging.problem
        except UsageError as error:
            # The runs are paid for, and their other checks hold.
            problem = str(error)
        return judges.judgements(said.by_id, problem)

    def _code(self, result: EvalResult) -> int:
        least = self._results.min_score
        if least is not None and any(
            result.is_scored(one.name) and result.score_of(one.name) < least
            for one in result.variants
            if not one.is_baseline
        ):
            return LOW_SCORE
        # A check that could not be made is as bad as an answer that is missing.
        return Exit.NO_ANSWER if any(one.unmade_checks for one in result.runs) else 0

    def _shown(self) -> MapDisplay:
        shows = not self._results.quiet
        live = shows and sys.stderr is not None and is_terminal(sys.stderr)
        return MapDisplay(events=False, live=live, lines=shows and not live, answers=False, noun="run")

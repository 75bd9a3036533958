"""Run what an eval has planned, check the runs, and print the results."""

import asyncio
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from run_specialist.batch.batch import Bounds
from run_specialist.cli.batch.map_options import MoneyOptions
from run_specialist.cli.batch.map_run import Shown, Worker
from run_specialist.cli.console import is_terminal, print_json
from run_specialist.cli.evals.comparing import Comparing
from run_specialist.cli.evals.eval_options import ResultOptions, WorkOptions
from run_specialist.cli.evals.eval_table import print_results
from run_specialist.evals.plan import EvalPlan
from run_specialist.evals.result_json import as_json
from run_specialist.evals.results import CaseRun, EvalResult
from run_specialist.evals.scoring import scored
from run_specialist.evals.stored_runs import stored_runs

if TYPE_CHECKING:
    from run_specialist.api.runner import Runner
    from run_specialist.batch.done import Done

LOW_SCORE = 1
"""Exit code if a variant scores less than it should."""


class Ends:
    """The runs that have ended, by number."""

    def __init__(self) -> None:
        self.by_number: dict[int, Done] = {}

    def write(self, done: "Done") -> None:
        """Keep what became of a run."""
        self.by_number[done.number] = done


class EvalWork:
    """One call of the command."""

    def __init__(
        self,
        plan: EvalPlan,
        make_runner: "Callable[[], Runner]",
        results: ResultOptions,
        money: MoneyOptions,
        work: WorkOptions,
        comparing: Comparing,
    ) -> None:
        self._plan = plan
        self._make_runner = make_runner
        self._results = results
        self._money = money
        self._work = work
        self._comparing = comparing

    def work(self) -> int:
        """Run, check and print; return the exit code."""
        runner, plan, ends = self._make_runner(), self._plan, Ends()
        batch = runner.batches.make_of(
            plan.row(self._money.limit),
            [one.item for one in plan.runs],
            [one.asked for one in plan.runs],
            Bounds(self._work.at_once, self._money.limit),
            [one.run_id for one in plan.runs],
        )
        worker = Worker(batch, [ends], self._shown())
        worker.work(runner)
        result = asyncio.run(self._scored(ends, runner.store))
        compared = self._comparing.compared(result)
        if self._results.json_:
            print_json(as_json(result, compared))
        else:
            print_results(result, compared)
        self._comparing.write(result, compared)
        return int(batch.exit_code) or self._code(result) or int(self._comparing.is_regression(compared))

    async def _scored(self, ends: Ends, store: str | None) -> EvalResult:
        plan, runs = self._plan, list[CaseRun]()
        with stored_runs(store) as known:
            for one in plan.runs:
                runs.append(await scored(one, ends.by_number.get(one.number), {}, known.load))
            earlier = [await scored(one, done, {}, known.load) for one, done in self._comparing.stored(plan.cases)]
        cases = tuple(case.name for case in plan.cases.cases)
        variants = tuple(one.variant for one in plan.subjects)
        result = EvalResult(plan.eval_id, plan.specialist, cases, variants, tuple(runs))
        return self._comparing.completed(result, earlier)

    def _code(self, result: EvalResult) -> int:
        least = self._results.min_score
        if least is None:
            return 0
        return LOW_SCORE if any(result.score_of(one.name) < least for one in result.variants) else 0

    def _shown(self) -> Shown:
        shows = not self._results.quiet
        live = shows and sys.stderr is not None and is_terminal(sys.stderr)
        return Shown(events=False, live=live, lines=shows and not live, answers=False)

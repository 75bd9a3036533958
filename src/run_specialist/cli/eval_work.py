"""Run an eval; print its tables and the comparison with an earlier one."""

import asyncio
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from statistics import fmean

import typer

from run_specialist.api.config_files import Config
from run_specialist.api.runner import Runner
from run_specialist.batch.batch import Batch, Bounds
from run_specialist.batch.item import Done
from run_specialist.budget import counted, dollars
from run_specialist.cli import batch_options, console
from run_specialist.cli.flags import ProjectOptions
from run_specialist.cli.map_progress import MapWorker, reason_of, spread
from run_specialist.cli.report import reports_in, write_missing
from run_specialist.cli.runs import existing_store
from run_specialist.cli.tables import duration_words, print_table
from run_specialist.errors import RunSpecialistError, StoreUnusable, UsageError
from run_specialist.evals import plan as plans
from run_specialist.evals import running
from run_specialist.evals.baseline import Baseline, find_baseline
from run_specialist.evals.cases import EvalCase, cases_path, load_cases
from run_specialist.evals.comparison import Comparison, as_json, comparisons, junit, notes, verdict_text
from run_specialist.evals.reuse import reused
from run_specialist.record.outcome import Exit
from run_specialist.specialist.problems import shown
from run_specialist.tools.sandbox import Sandbox
from run_specialist.views.eval_page import AMOUNTS, amount, eval_page
from run_specialist.views.page import signed

_COLORS = {"better": typer.colors.GREEN, "worse": typer.colors.RED, "cannot be told": typer.colors.YELLOW}


@dataclass
class EvalWork:
    """One call of the command, with its options."""

    name: str
    """Name of the specialist, or path of its file."""
    config: Config
    project: ProjectOptions
    options: batch_options.EvalOptions
    each_run: batch_options.EachRunOptions
    _baseline: Baseline | None = None
    _is_interrupted: bool = False

    def work(self) -> int:
        """Plan, run, check and print; return the exit code."""
        runner, judging = self._runner(self.each_run.model), self._runner(self.options.judge_model)
        if self.options.with_reports and self.options.page is None:
            console.fail("--with-reports needs --page, beside which the reports are written")
        # Before anything is spent; exits if a file cannot be written.
        for flag, path in (("--page", self.options.page), ("--junit", self.options.junit)):
            console.OutputFile(path, flag)
        plan = self._plan(runner)
        with existing_store(runner.store) as store:
            plan = asyncio.run(reused(plan, runner, store, fresh=self.options.fresh))
            forecast = running.eval_forecast(plan, runner, store, judging, self.options.at_once)
        planned_line = " · ".join(self._announced(plan, forecast))
        if self.options.dry_run:
            self._show(plan, forecast, planned_line)
            return 0
        if not self.options.quiet:
            console.say(planned_line)
        most, limit = forecast.total_cost_usd_90, self.options.limit
        if most is not None:
            most = min(most + (forecast.judges_cost_usd_90 or 0.0), math.inf if limit is None else limit)
        self.options.confirm(most)
        bounds = Bounds(self.options.at_once, limit, forecast.typical_cost)
        batch = running.runs_batch(plan, runner, bounds)
        ends = {done.number: done for done in self._run(batch, runner)}
        judgements = self._judgements(plan, ends, judging, batch.cost_usd)
        with existing_store(runner.store) as store:
            result = asyncio.run(running.result_of(plan, ends, judgements, store))
        if self._baseline is not None:
            result = self._baseline.completed(result)
        compared = comparisons(result, self.options.tolerance)
        values = as_json(result, compared)
        if self.options.json_:
            console.print_json(values)
        else:
            print_results(result, compared)
        if left := batch.counts.not_run + batch.counts.aborted:
            again = "repeat the same command to make them, nothing is paid for twice"
            console.say("; ".join(filter(None, [reason_of(batch, "run"), f"{counted(left, 'run')} left", again])))
        # The stored result is for `specialists report`; if the store fails, only that page is missing.
        try:
            plans.keep_result(plan, values, runner.store)
        except StoreUnusable as error:
            console.say(f"the page of this eval cannot be written later: {error}")
        self._write(result, compared, runner)
        if self._is_interrupted:
            return Exit.INTERRUPTED
        return int(batch.exit_code) or self._code(result, compared)

    def _runner(self, model: str | None) -> Runner:
        """Return a runner for a model; None = that of each file or of the environment."""
        each_run = replace(self.each_run, model=model)
        return batch_options.batch_runner(self.config, self.project, each_run, quiet=self.options.quiet)

    def _plan(self, runner: Runner) -> plans.EvalPlan:
        """Return the planned runs; the baseline comes first if it has to be run, too. Raises UsageError."""
        file = runner.registry.find(self.name)
        if self.options.baseline is not None:
            self._baseline = find_baseline(self.options.baseline, file.path, runner.store)
        settings = self.each_run.settings
        if self.each_run.model is not None:
            settings["model"] = self.each_run.model
        others = [runner.registry.find(str(path)) for path in self.options.file or ()]
        compared = plans.subjects([file, *others], settings, plans.varied(self.options.vary or ()))
        if self._baseline is not None and self._baseline.path is not None:
            before = runner.registry.find(str(self._baseline.path))
            name = self._baseline.called([one.variant for one in compared])
            variant = plans.Variant(name, str(before.path), before.digest, {}, is_baseline=True)
            compared.insert(0, plans.Subject(variant, before, settings))
        path = self.options.cases or cases_path(file)
        cases = self._chosen(path, load_cases(path, partial(running.check_judge, runner)))
        return plans.planned(runner, file.name, path, cases, compared, self.options.repeat)

    def _chosen(self, path: Path, cases: tuple[EvalCase, ...]) -> tuple[EvalCase, ...]:
        """Return the cases selected by `--case`; raises UsageError if a pattern matches none."""
        patterns, chosen = self.options.case or (), set[str]()
        for pattern in patterns:
            found = {one.name for one in cases if pattern == one.name or fnmatchcase(one.name, pattern)}
            if not found:
                names = shown(", ".join(one.name for one in cases), 300)
                raise UsageError(f"{path}:1:1: no case is named {shown(pattern)}; there are {names}")
            chosen |= found
        return tuple(one for one in cases if one.name in chosen or not patterns)

    def _announced(self, plan: plans.EvalPlan, forecast: running.EvalForecast) -> Iterator[str]:
        """Yield the parts of the line that announces the eval."""
        earlier = len(plan.earlier)
        factors = [counted(len(plan.cases), "case")]
        if len(plan.subjects) > 1:
            factors.append(counted(len(plan.subjects), "variant"))
        if plan.repeat > 1:
            factors.append(f"{plan.repeat} times")
        yield " × ".join(factors)
        if earlier:
            yield f"{earlier:,} of {counted(len(plan.runs), 'run')} stored already"
        if plan.stale:
            yield f"{counted(plan.stale, 'run')} again, because files have changed"
        if earlier == len(plan.runs):
            yield "nothing to ask"
            return
        if forecast.total_seconds is None:
            yield "no past runs to forecast from"
        else:
            if forecast.total_cost_usd_90:
                yield f"about {spread(forecast.total_cost_usd or 0.0, forecast.total_cost_usd_90)}"
            yield f"{duration_words(forecast.total_seconds)} at {self.options.at_once} at once"
        if any(map(running.judges_of, plan.cases)):
            low, high = forecast.judges_cost_usd, forecast.judges_cost_usd_90
            yield "judges cost extra" if low is None or high is None else f"judges about {spread(low, high)}"

    def _show(self, plan: plans.EvalPlan, forecast: running.EvalForecast, line: str) -> None:
        """Print what would be run."""
        if not self.options.json_:
            console.print_line(line)
            for one in plan.runs:
                console.print_line(f"{'stored' if one.run_id in plan.earlier else 'to run'}  {one.name}")
            console.print_line(f"eval {plan.eval_id}; nothing was sent")
            return
        costs = forecast._asdict()
        del costs["typical_cost"]
        console.print_json(
            {
                "eval": plan.eval_id,
                "specialist": plan.specialist,
                "cases": [one.name for one in plan.cases],
                "variants": [one.variant.name for one in plan.subjects],
                "repeat": plan.repeat,
                "runs": len(plan.runs),
                "earlier": len(plan.earlier),
                "stale": plan.stale,
                "forecast": costs,
            }
        )

    def _run(self, batch: Batch, runner: Runner) -> list[Done]:
        """Run a batch; return how its items ended."""
        ends: list[Done] = []
        worker = MapWorker(batch, [ends.append], shows=not self.options.quiet, noun="run")
        worker.work(runner)
        self._is_interrupted = self._is_interrupted or worker.interrupts > 0
        return ends

    def _judgements(
        self, plan: plans.EvalPlan, ends: Mapping[int, Done], runner: Runner, spent: float
    ) -> running.Judgements:
        """Ask the judges about all answers."""
        answers = [] if self._is_interrupted else running.judged_answers(plan, ends, runner)
        if not answers:
            return {}
        left = None if self.options.limit is None else max(self.options.limit - spent, 0.0)
        judging = running.judges_batch(plan, answers, runner, Bounds(self.options.at_once, left))
        said: list[Done] = []
        try:
            said, problem = self._run(judging, runner), judging.problem
        except UsageError as error:
            # The runs are paid for, and their other checks hold.
            problem = str(error)
        return running.judgements(answers, {done.run_id: done for done in said}, problem)

    def _write(self, result: plans.EvalResult, compared: Sequence[Comparison], runner: Runner) -> None:
        """Write the requested private files, and warn if the specialist can read them; raises OSError."""
        junit_path, page = self.options.junit, self.options.page
        if junit_path is not None:
            text = junit(result, compared if self._baseline else ())
            console.write_private(junit_path, text.encode("utf-8", "replace"), overwrite=True)
        if page is not None:
            folder = page.parent / f"{page.stem}-reports"
            ids = list(dict.fromkeys(one.run_id for one in result.runs if one.run_id))
            if self.options.with_reports:
                with existing_store(runner.store) as store:
                    if store is not None:
                        write_missing(store, ids, folder, overwrite=False)
            text = eval_page(as_json(result, compared), reports_in(folder, ids, f"{folder.name}/"))
            console.write_private(page, text.encode("utf-8", "replace"), overwrite=True)
        settings = runner.registry.find(self.name).specialist
        for path in (page, junit_path):
            if path is not None and settings is not None and settings.tools != ():
                with suppress(RunSpecialistError):
                    Sandbox(runner.root, settings.paths or ()).locate(os.path.realpath(path))
                    console.say(
                        f"{path} is among the files that {settings.name} reads, so its runs can find the answers "
                        "there, and the next eval repeats them; write it elsewhere, or list it in .gitignore"
                    )

    def _code(self, result: plans.EvalResult, compared: Sequence[Comparison]) -> int:
        least = self.options.min_score
        scores = [result.score_of(one.name) for one in result.variants if not one.is_baseline]
        if least is not None and any(one is not None and one < least for one in scores):
            return 1
        # A check that could not be made is as bad as an answer that is missing.
        if any(one.unmade_checks for one in result.runs):
            return Exit.NO_ANSWER
        return int(self._baseline is not None and any(one.regression for one in compared))


def print_results(result: plans.EvalResult, compared: Sequence[Comparison] = ()) -> None:
    """Print the results and the comparisons of its variants for people."""
    names = [one.name for one in result.variants]
    # How cells differ from the baseline.
    differences = {(pair.case, one.variant): pair.difference for one in compared for pair in one.pairs}
    rows = []
    for case in result.cases:
        cells = [_cell([one for one in result.runs if (one.case, one.variant) == (case, name)]) for name in names]
        changes = [differences.get((case, name)) for name in names]
        rows.append((case, *(f"{one} {signed(by)}" if by else one for one, by in zip(cells, changes, strict=True))))
    scores = [result.score_of(one) for one in names]
    rows.append(("score", *("–" if one is None else f"{one:.2f}" for one in scores)))
    print_table(("CASE", *names), rows)
    for line in (*failures(result), *(" · ".join(_totals(name, result.of(name))) for name in names)):
        console.print_wrapped(line)
    for one in compared:
        for number, line in enumerate(comparison_lines(one)):
            console.print_wrapped(line, None if number else _COLORS.get(one.verdict))


def failures(result: plans.EvalResult) -> Iterator[str]:
    """Yield a line for each failed check, and for each run that could not be checked, except the baseline's.

    Repeats that failed in the same way share a line, which names the first run.
    """
    base = {one.name for one in result.variants if one.is_baseline}
    found: dict[tuple[str, str], list[plans.CaseRun]] = {}
    for run in result.runs:
        if run.variant in base:
            continue
        where = f"{run.case} · {run.variant}"
        for one in run.checks:
            if one.value is False:
                found.setdefault((where, f"{one.name}: {one.reason or 'failed'}"), []).append(run)
        if run.error:
            found.setdefault((where, run.error), []).append(run)
    for (where, what), runs in found.items():
        times = f" ({len(runs)} times)" if len(runs) > 1 else ""
        page = "" if runs[0].run_id is None else f"; specialists report {runs[0].run_id}"
        yield f"{where}: {what}{times}{page}"


def _cell(runs: list[plans.CaseRun]) -> str:
    ended = [run for run in runs if run.has_ended]
    if not ended:
        return "not run"
    passed = sum(run.passed for run in ended)
    mark = ("pass" if passed else "fail") if len(runs) == 1 else f"{passed}/{len(runs)}"
    scores = [run.score for run in ended if run.is_scored]
    return f"{mark} {fmean(scores):.2f}" if scores else f"{mark} –"


def _totals(name: str, runs: list[plans.CaseRun]) -> Iterator[str]:
    yield name
    yield f"{sum(run.passed for run in runs)} of {counted(len(runs), 'run')} passed"
    costs = {"": [run.cost_usd for run in runs], "judges ": [run.judge_cost_usd for run in runs]}
    for whose, amounts in costs.items():
        if None in amounts:
            yield f"price{' of judges' if whose else ''} unknown"
        elif any(amounts):
            yield f"{whose}{dollars(sum(cost or 0.0 for cost in amounts))}"
    yield counted(sum(run.tool_calls for run in runs), "tool call")
    yield duration_words(sum(run.seconds for run in runs))


def comparison_lines(one: Comparison) -> Iterator[str]:
    """Yield the verdict on a variant, its other certain differences, and notes on omitted runs."""
    yield f"{one.variant}: {verdict_text(one)}"
    changed = [
        f"{AMOUNTS[name].lower()} {amount(found.baseline, name)} → {amount(found.variant, name)}"
        for name, found in one.medians.items()
        if found.low is not None and found.high is not None and (found.low > 0 or found.high < 0)
    ]
    if changed:
        yield f"{one.variant}: medians of the cases: {', '.join(changed)}"
    yield from (f"{one.variant}: {line}" for line in notes(one))

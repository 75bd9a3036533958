"""Run an eval; print its tables and the comparison with an earlier one."""

import asyncio
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import typer

from run_specialist.batch.batch import Bounds
from run_specialist.budget import dollars
from run_specialist.cli.batch_options import CaseOptions, ComparisonOptions, MoneyOptions, ResultOptions, WorkOptions
from run_specialist.cli.console import (
    fail,
    has_colours,
    is_terminal,
    print_json,
    print_line,
    print_styled,
    printable,
    say,
    try_writing,
    wrapped,
    write_private,
)
from run_specialist.cli.map_progress import MapWorker, counted, duration, reason_of, spread
from run_specialist.cli.report import reports_in, write_missing
from run_specialist.cli.tables import print_table
from run_specialist.errors import RunSpecialistError, StoreUnusable, UsageError
from run_specialist.evals.baseline import Baseline, earlier_eval, find_baseline
from run_specialist.evals.comparison import (
    Comparison,
    as_json,
    comparisons,
    junit,
    notes,
    signed,
    verdict_text,
)
from run_specialist.evals.plan import CaseRun, EvalPlan, EvalResult, Subject, Variant, keep_result
from run_specialist.evals.reuse import ReusePlan, reused, stored_runs
from run_specialist.evals.running import (
    EvalForecast,
    Judgements,
    JudgePlan,
    eval_forecast,
    has_judges,
    result_of,
    runs_batch,
)
from run_specialist.record.outcome import Exit
from run_specialist.tools.sandbox import Sandbox

if TYPE_CHECKING:
    from run_specialist.api.runner import Runner
    from run_specialist.batch.batch import Batch
    from run_specialist.batch.item import Done
    from run_specialist.specialist.loader import SpecialistFile


@dataclass(frozen=True)
class Comparing:
    """The baseline and the outputs of a comparison."""

    options: ComparisonOptions
    baseline: Baseline | None = None

    @classmethod
    def begun(cls, options: ComparisonOptions, file: "SpecialistFile", store: str | None) -> "Comparing":
        """Find the baseline and check, before anything is spent, that the output files can be written; exit if not.

        store: URL of the store; None for the usual one.
        Raises UsageError for a baseline that does not exist.
        """
        if options.with_reports and options.page is None:
            fail("--with-reports needs --page, beside which the reports are written")
        for flag, path in (("--page", options.page), ("--junit", options.junit)):
            if path is not None:
                try:
                    try_writing(path)
                except OSError as error:
                    fail(f"{flag} {path}: {error.strerror or error}")
        if options.baseline is None:
            return cls(options)
        return cls(options, find_baseline(options.baseline, file.path, lambda name: earlier_eval(name, store)))

    def subjects(
        self, runner: "Runner", settings: "Mapping[str, Any]", others: Sequence[Subject]
    ) -> tuple[Subject, ...]:
        """Return the variants to run; the baseline comes first if it has to be run, too.

        settings: those of all variants.
        """
        base = self.baseline
        if base is None or base.path is None:
            return tuple(others)
        file = runner.registry.find(str(base.path))
        variant = Variant(
            self._name([one.variant for one in others]), str(file.path), file.digest, {}, is_baseline=True
        )
        return (Subject(variant, file, settings), *others)

    def with_earlier(self, plan: "EvalPlan", ends: "dict[int, Done]") -> "EvalPlan":
        """Return the plan with the ended runs of an earlier eval added, so that the current checks apply to them.

        ends: ended runs by number; those of the earlier eval are added to it.
        """
        base = self.baseline
        if base is None or base.earlier is None or base.variant is None:
            return plan
        name = self._name([one.variant for one in plan.subjects])
        variant = replace(base.variant, name=name, is_baseline=True)
        first = max((one.number for one in plan.runs), default=0) + 1
        added = []
        for number, (run, done) in enumerate(base.earlier.planned(plan.cases, base.variant.name, variant), first):
            added.append(replace(run, number=number))
            ends[number] = done
        subject = Subject(variant, plan.subjects[0].file)
        return replace(plan, subjects=(subject, *plan.subjects), runs=(*added, *plan.runs))

    def completed(self, result: EvalResult) -> EvalResult:
        """Return the result with the runs of the baseline added, if that is a result in JSON."""
        base = self.baseline
        if base is None or base.variant is None or base.earlier is not None:
            return result
        cases = set(result.cases)
        name = self._name(result.variants)
        variant = replace(base.variant, name=name, is_baseline=True)
        runs = tuple(replace(one, variant=name) for one in base.runs if one.case in cases)
        return replace(result, variants=(variant, *result.variants), runs=(*runs, *result.runs))

    def compared(self, result: EvalResult) -> tuple[Comparison, ...]:
        """Return the comparisons of the variants with the baseline, or with the first variant if there is none."""
        return comparisons(result, self.options.tolerance)

    def write(self, result: EvalResult, compared: Sequence[Comparison], store: str | None) -> None:
        """Write the requested files; raises OSError.

        store: URL of the store; None for the usual one.
        """
        if self.options.junit is not None:
            text = junit(result, compared if self.baseline else ())
            write_private(self.options.junit, text.encode("utf-8", "replace"), overwrite=True)
        if self.options.page is not None:
            write_page(self.options.page, as_json(result, compared), store, with_reports=self.options.with_reports)

    def is_regression(self, compared: Sequence[Comparison]) -> bool:
        """Return whether a variant is worse than the baseline, with certainty and by more than the tolerance."""
        return self.baseline is not None and any(one.regression for one in compared)

    def _name(self, others: Sequence[Variant]) -> str:
        name = self.baseline.name if self.baseline else ""
        return f"{name} (baseline)" if name in {one.name for one in others} else name


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
        factors = [counted(len(plan.cases.cases), "case")]
        if len(plan.subjects) > 1:
            factors.append(counted(len(plan.subjects), "variant"))
        if plan.repeat > 1:
            factors.append(f"{plan.repeat} times")
        yield " × ".join(factors)
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

    def _expected(self) -> Iterator[str]:
        if not self.forecast.is_known:
            yield "no past runs to forecast from"
            return
        cost = self.forecast.cost
        if cost is not None and cost[1]:
            yield f"about {spread(*cost)}"
        if (seconds := self.forecast.seconds(self.at_once)) is not None:
            yield f"{duration(seconds)} at {self.at_once} at once"


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
        self._money.confirm(announced.most)
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
        if left := batch.counts.not_run + batch.counts.aborted:
            reason = reason_of(batch, "run")
            why = f"{reason}; " if reason else ""
            say(f"{why}{counted(left, 'run')} left; repeat the same command to make them, nothing is paid for twice")
        # The stored result is for `specialists report`; if the store fails, only that page is missing.
        try:
            keep_result(announced.reused.plan, as_json(result, compared), runner.store)
        except StoreUnusable as error:
            say(f"the page of this eval cannot be written later: {error}")
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

    def _run(self, batch: "Batch", runner: "Runner", ends: EndedRuns) -> None:
        worker = MapWorker(batch, [ends.write], shows=not self._results.quiet, noun="run")
        worker.work(runner)
        self._is_interrupted = self._is_interrupted or worker.interrupts > 0

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


def print_results(result: EvalResult, compared: Sequence[Comparison] = ()) -> None:
    """Print the results for people.

    compared: the comparisons of its variants.
    """
    head = ("CASE", *(f"{one.name}" for one in result.variants))
    # How cells differ from the baseline.
    marks = {
        (pair.case, one.variant): f" {signed(pair.difference)}"
        for one in compared
        for pair in one.paired.pairs
        if pair.difference
    }
    rows = [
        (case, *(_cell(result, case, one.name) + marks.get((case, one.name), "") for one in result.variants))
        for case in result.cases
    ]
    names = [one.name for one in result.variants]
    rows.append(("score", *(f"{result.score_of(one):.2f}" if result.is_scored(one) else "–" for one in names)))
    print_table(head, rows)
    for line in failures(result):
        print_wrapped(line)
    for variant in result.variants:
        print_wrapped(" · ".join(_totals(variant.name, result.of(variant.name))))
    print_comparisons(compared)


def failures(result: EvalResult) -> Iterator[str]:
    """Yield a line for each failed check, and for each run that could not be checked, except the baseline's.

    Repeats that failed in the same way share a line, which names the first run.
    """
    base = {one.name for one in result.variants if one.is_baseline}
    found: dict[tuple[str, str], list[CaseRun]] = {}
    for run in result.runs:
        if run.variant in base:
            continue
        where = f"{run.case} · {run.variant}"
        for one in run.checks:
            if one.value is False:
                # An argument in the name that the reason repeats is left out.
                evaluator, _, argument = one.name.partition(": ")
                reason = one.reason or "failed"
                name = evaluator if argument and argument in reason else one.name
                found.setdefault((where, f"{name}: {reason}"), []).append(run)
        if run.error:
            found.setdefault((where, run.error), []).append(run)
    for (where, what), runs in found.items():
        times = f" ({len(runs)} times)" if len(runs) > 1 else ""
        page = "" if runs[0].run_id is None else f"; specialists report {runs[0].run_id}"
        yield f"{where}: {what}{times}{page}"


def _cell(result: EvalResult, case: str, variant: str) -> str:
    runs = [run for run in result.runs if run.case == case and run.variant == variant]
    ended = [run for run in runs if run.has_ended]
    if not ended:
        return "not run"
    passed = sum(run.passed for run in ended)
    mark = ("pass" if passed else "fail") if len(runs) == 1 else f"{passed}/{len(runs)}"
    scores = [run.score for run in ended if run.is_scored]
    return f"{mark} {fmean(scores):.2f}" if scores else f"{mark} –"


def _totals(name: str, runs: tuple[CaseRun, ...]) -> Iterator[str]:
    yield name
    yield f"{sum(run.passed for run in runs)} of {counted(len(runs), 'run')} passed"
    costs = [run.cost_usd for run in runs]
    if None in costs:
        yield "price unknown"
    elif any(costs):
        yield dollars(sum(cost or 0.0 for cost in costs))
    judges = [run.judge_cost_usd for run in runs]
    if None in judges:
        yield "price of judges unknown"
    elif any(judges):
        yield f"judges {dollars(sum(cost or 0.0 for cost in judges))}"
    yield counted(sum(run.tool_calls for run in runs), "tool call")
    yield duration(sum(run.seconds for run in runs))


_NOUNS = {"cost_usd": "cost", "tool_calls": "tool calls", "tokens": "tokens", "seconds": "time"}
_LARGE = 100
"""Numbers from this on are shown without decimals."""
_COLORS = {"better": typer.colors.GREEN, "worse": typer.colors.RED, "cannot be told": typer.colors.YELLOW}


def print_comparisons(compared: Sequence[Comparison]) -> None:
    """Print the comparisons; the verdicts are colored on a terminal."""
    for one in compared:
        for number, line in enumerate(comparison_lines([one])):
            print_wrapped(line, None if number else _COLORS.get(one.verdict))


def print_wrapped(line: str, color: str | None = None) -> None:
    """Print a line, wrapped at words on a terminal."""
    if not is_terminal():
        print_line(line)
        return
    for part in wrapped(printable(line), shutil.get_terminal_size().columns):
        print_styled(typer.style(part, color) if color and has_colours() else part)


def comparison_lines(compared: Sequence[Comparison]) -> Iterator[str]:
    """Yield the verdict on each variant, its other differences, and notes on omitted runs."""
    for one in compared:
        yield f"{one.variant}: {verdict_text(one)}"
        told = [text for text, is_told in _besides(one) if is_told]
        chance = [text for text, is_told in _besides(one) if not is_told]
        groups = (("medians of the cases: ", told), ("differences that may be chance: ", chance))
        if besides := "; ".join(words + ", ".join(found) for words, found in groups if found):
            yield f"{one.variant}: {besides}"
        yield from (f"{one.variant}: {line}" for line in notes(one))


def _besides(one: Comparison) -> Iterator[tuple[str, bool]]:
    """Yield each other amount that differs, as a line with medians, and whether chance is excluded."""
    for name, found in one.medians.items():
        before, after = (_amount(name, value) for value in (found.baseline, found.variant))
        if before != after:
            is_told = found.low is not None and found.high is not None and (found.low > 0 or found.high < 0)
            yield f"{_NOUNS[name]} {before} → {after}", is_told


def _amount(name: str, value: float) -> str:
    if name == "cost_usd":
        return dollars(value)
    if name == "seconds":
        return duration(value)
    return f"{value:,.0f}" if value >= _LARGE else f"{value:,.1f}".removesuffix(".0")


def warn_of_seen(outputs: Iterable[Path | None], root: Path, file: "SpecialistFile") -> None:
    """Print a warning for each output file that a specialist's file tools can read: it would find the answers there.

    outputs: files that were written; None for those that were not requested.
    root: the folder that the file tools can read.
    """
    for path in outputs:
        if path is not None and _is_seen(path, root, file):
            say(
                f"{path} is among the files that {file.name} reads, so its runs can find the answers there, and the "
                "next eval repeats them; write it elsewhere, or list it in .gitignore"
            )


def _is_seen(path: Path, root: Path, file: "SpecialistFile") -> bool:
    settings = file.specialist
    if settings is None or settings.tools == ():
        return False
    try:
        Sandbox(root, settings.paths or ()).locate(os.path.realpath(path))
    except RunSpecialistError:
        return False
    return True


def write_page(path: Path, result: Mapping[str, Any], store: str | None, *, with_reports: bool) -> None:
    """Write a page that only its owner can read; an existing file is replaced.

    result: as `--json` prints it.
    store: URL of the store of the runs; None for the usual one.
    with_reports: also write the reports that are missing, into the folder `NAME-reports`.
    Raises OSError.
    """
    from run_specialist.views.eval_page import eval_page  # noqa: PLC0415 - fast `--help`

    folder = path.parent / f"{path.stem}-reports"
    ids = list(dict.fromkeys(one["run_id"] for one in result["runs"] if one["run_id"]))
    if with_reports:
        folder.mkdir(mode=0o700, exist_ok=True)
        with stored_runs(store) as known:
            if known.store is not None:
                write_missing(known.store, ids, folder, overwrite=False)
    reports = reports_in(folder, ids) if folder.is_dir() else {}
    links = {run_id: f"{folder.name}/{name}" for run_id, name in reports.items()}
    write_private(path, eval_page(result, links).encode("utf-8", "replace"), overwrite=True)

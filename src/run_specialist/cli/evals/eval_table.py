"""Print the results of an eval: a table of cases by variants, the failed checks, and the totals."""

from collections.abc import Iterator, Sequence
from statistics import fmean

from run_specialist.budget.units import dollars
from run_specialist.cli.batch.map_units import counted, duration
from run_specialist.cli.evals.comparison_lines import print_comparisons, print_wrapped
from run_specialist.cli.table import print_table
from run_specialist.evals.comparison import Comparison
from run_specialist.evals.eval_results import CaseRun, Check, EvalResult
from run_specialist.evals.verdict_text import signed


def print_results(result: EvalResult, compared: Sequence[Comparison] = ()) -> None:
    """Print the results for people.

    compared: the comparisons of its variants.
    """
    head = ("CASE", *(f"{one.name}" for one in result.variants))
    marks = _differences(compared)
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


def _differences(compared: Sequence[Comparison]) -> dict[tuple[str, str], str]:
    """Return how cells differ from the baseline, by case and variant."""
    return {
        (pair.case, one.variant): f" {signed(pair.difference)}"
        for one in compared
        for pair in one.paired.pairs
        if pair.difference
    }


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
                found.setdefault((where, _failure(one)), []).append(run)
        if run.error:
            found.setdefault((where, run.error), []).append(run)
    for (where, what), runs in found.items():
        times = f" ({len(runs)} times)" if len(runs) > 1 else ""
        page = "" if runs[0].run_id is None else f"; specialists report {runs[0].run_id}"
        yield f"{where}: {what}{times}{page}"


def _failure(check: Check) -> str:
    """Return the name and the reason of a failed check, without an argument in the name that the reason repeats."""
    evaluator, _, argument = check.name.partition(": ")
    reason = check.reason or "failed"
    return f"{evaluator if argument and argument in reason else check.name}: {reason}"


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

"""Compare variants with a baseline, case by case, and report only differences that chance does not explain."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Literal

from run_specialist.evals.eval_results import CaseRun, EvalResult, Variant
from run_specialist.evals.intervals import cases_needed, exact, mean_interval, median_interval
from run_specialist.evals.pairing import PairedVariants, amounts, paired

ALPHA = 0.05
"""Maximum probability that any comparison reports a difference although there is none, over all variants together."""

Verdict = Literal["better", "worse", "no difference", "cannot be told"]


@dataclass(frozen=True, slots=True)
class MetricDifference:
    """A quantity of the baseline and of a variant."""

    baseline: float
    variant: float
    difference: float
    """Value of the variant minus that of the baseline; for a median, the median of the differences by case."""
    low: float | None
    """Lower limit of the interval; None if there are too few cases for an interval."""
    high: float | None
    cases: int
    """Cases in which the quantity is known on both sides."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """A variant compared with the baseline."""

    variant: str
    baseline: str
    verdict: Verdict
    """From the score: better or worse if the interval excludes 0; no difference if it is within the tolerance."""
    regression: bool
    """Whether the whole interval is below minus the tolerance."""
    same_runs: bool
    """Whether both sides have the same runs, because all their inputs are equal."""
    tolerance: float
    alpha: float
    """Error probability of each interval: `ALPHA` divided by the number of compared variants."""
    cases_needed: int | None
    """Estimated number of cases that would detect the observed difference; None if it is 0 or already detected."""
    paired: PairedVariants
    score: MetricDifference | None
    """Mean scores; None without pairs."""
    passed: MetricDifference | None
    """Mean shares of repeats that passed."""
    medians: Mapping[str, MetricDifference]
    """Medians of `cost_usd`, `tool_calls`, `tokens` and `seconds`, without unknown ones."""

    @property
    def cases(self) -> int:
        """The number of cases that are compared."""
        return len(self.paired.pairs)


_AMOUNTS: Mapping[str, Callable[[CaseRun], float | None]] = {
    "cost_usd": lambda run: run.cost_usd,
    "tool_calls": lambda run: run.tool_calls,
    "tokens": lambda run: run.tokens,
    "seconds": lambda run: run.seconds,
}


def reference(result: EvalResult) -> Variant | None:
    """Return the variant to compare with: the baseline, otherwise the first; None for a single variant."""
    chosen = next((one for one in result.variants if one.is_baseline), result.variants[0] if result.variants else None)
    return chosen if len(result.variants) > 1 else None


def comparisons(result: EvalResult, tolerance: float = 0.0) -> tuple[Comparison, ...]:
    """Compare each variant with the baseline.

    tolerance: maximum score difference that counts as none, and as no regression; >= 0.
    """
    base = reference(result)
    if base is None:
        return ()
    others = [one for one in result.variants if one is not base]
    return tuple(_compared(result, base, one, tolerance, ALPHA / len(others)) for one in others)


def _compared(result: EvalResult, base: Variant, variant: Variant, tolerance: float, alpha: float) -> Comparison:
    before, after = result.of(base.name), result.of(variant.name)
    both = paired(result.cases, before, after)
    scores = [(one.baseline, one.variant) for one in both.pairs]
    score = _means(scores, alpha)
    same_runs = bool(before) and {one.run_id for one in before} == {one.run_id for one in after}
    verdict, is_regression = _verdict(score, tolerance, same_runs=same_runs)
    needed = cases_needed([one.difference for one in both.pairs], alpha) if verdict == "cannot be told" else None
    medians = {name: _medians(amounts(both.pairs, before, after, of), alpha) for name, of in _AMOUNTS.items()}
    return Comparison(
        variant.name,
        base.name,
        verdict,
        is_regression,
        same_runs,
        tolerance,
        alpha,
        needed,
        both,
        score,
        _means([(one.baseline_passed, one.variant_passed) for one in both.pairs], alpha),
        {name: one for name, one in medians.items() if one},
    )


def _verdict(score: MetricDifference | None, tolerance: float, *, same_runs: bool) -> tuple[Verdict, bool]:
    """Return the verdict, and whether it is a regression."""
    if same_runs:
        return "no difference", False
    if score is None or score.low is None or score.high is None:
        return "cannot be told", False
    if -tolerance <= score.low and score.high <= tolerance:
        return "no difference", False
    if score.low > 0:
        return "better", False
    return ("worse", score.high < -tolerance) if score.high < 0 else ("cannot be told", False)


def _means(pairs: Sequence[tuple[float, float]], alpha: float) -> MetricDifference | None:
    if not pairs:
        return None
    differences = [exact(right - left) for left, right in pairs]
    low, high = mean_interval(differences, alpha) or (None, None)
    before, after = (fmean(side) for side in zip(*pairs, strict=True))
    return MetricDifference(before, after, exact(fmean(differences)), low, high, len(pairs))


def _medians(pairs: Sequence[tuple[float, float]], alpha: float) -> MetricDifference | None:
    if not pairs:
        return None
    differences = [exact(right - left) for left, right in pairs]
    low, high = median_interval(differences, alpha) or (None, None)
    before, after = (median(side) for side in zip(*pairs, strict=True))
    return MetricDifference(before, after, exact(median(differences)), low, high, len(pairs))

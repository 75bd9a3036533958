"""Format the verdict of a comparison as a sentence."""

from run_specialist.evals.comparison import Comparison, MetricDifference
from run_specialist.evals.intervals import fewest_cases

MOST_CASES = 10_000
"""Maximum number of needed cases that is stated."""


def verdict_text(one: Comparison) -> str:
    """Return a verdict as one sentence, without the name of the variant."""
    score, base = one.score, one.baseline
    if score is None:
        return f"Cannot be compared with {base}: no case has an ended run on both sides."
    over = f"score {signed(score.difference)} over {_cases(one.cases)}{interval_text(score, one.alpha)}"
    if one.verdict == "cannot be told":
        return f"Cannot be told with {_cases(one.cases)} whether it differs from {base}: {_open(one, score)}."
    if one.verdict == "no difference":
        return f"No difference from {base}{_equal(one, over)}."
    return f"{one.verdict.capitalize()} than {base}{_by_how_much(one)}: {over}."


def notes(one: Comparison) -> list[str]:
    """Return what a comparison left out, one sentence each."""
    both = one.paired
    found = [
        (both.only_baseline, "left out, because only the baseline has an ended run"),
        (both.only_variant, "left out, because the baseline has no ended run"),
        (both.not_comparable, "left out, because no check was made on both sides"),
        (both.other_checks, "compared by the checks that were made on both sides"),
    ]
    return [f"{', '.join(cases)}: {why}" for cases, why in found if cases]


def signed(value: float, digits: int = 2) -> str:
    """Return a difference with its sign; more digits if it would be shown as 0."""
    while value and digits < 6 and not round(value, digits):  # noqa: PLR2004 - a smaller one is 0 for people
        digits += 1
    return f"{value:+.{digits}f}" if round(value, digits) else f"{0:.{digits}f}"


def interval_text(difference: MetricDifference, alpha: float) -> str:
    """Return an interval as ` (95 % interval +0.04 to +0.21)`; empty if there is none."""
    if difference.low is None or difference.high is None:
        return ""
    return f" ({100 * (1 - alpha):.3g} % interval {signed(difference.low)} to {signed(difference.high)})"


def _equal(one: Comparison, over: str) -> str:
    if one.same_runs:
        return ": both have the same inputs, so their runs are the same"
    if not any(pair.difference for pair in one.paired.pairs):
        return f": each of the {_cases(one.cases)} has the same score"
    return f" that is larger than the tolerance of {one.tolerance:g}: {over}"


def _by_how_much(one: Comparison) -> str:
    if not one.tolerance or one.verdict != "worse":
        return ""
    tolerance = f"the tolerance of {one.tolerance:g}"
    return f" by more than {tolerance}" if one.regression else f", but not certainly by more than {tolerance}"


def _open(one: Comparison, score: MetricDifference) -> str:
    fewest = fewest_cases(one.alpha)
    if not score.difference:
        needed = f"; it takes at least {_cases(fewest)}" if one.cases < fewest else ""
        return f"the mean scores are equal{interval_text(score, one.alpha)}{needed}"
    seen = f"score {signed(score.difference)}{interval_text(score, one.alpha)}"
    if one.cases_needed is None or one.cases_needed > MOST_CASES:
        return f"{seen}; more than {_cases(MOST_CASES)} would be needed to detect such a small difference"
    roughly = "at least" if one.cases_needed == fewest else "about"
    return f"{seen}; {roughly} {_cases(one.cases_needed)} would be needed to detect such a difference"


def _cases(count: int) -> str:
    return f"{count:,} case{'' if count == 1 else 's'}"

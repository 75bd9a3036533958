"""Compare two sets of results case by case; the verdicts as text, JSON and JUnit."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import compress
from math import ceil, comb, floor, log2
from random import Random
from statistics import NormalDist, fmean, median, stdev
from typing import Any, Literal
from xml.etree import ElementTree as ET

from run_specialist.budget import counted
from run_specialist.evals.plan import CaseRun, EvalResult
from run_specialist.views.eval_page import AMOUNTS
from run_specialist.views.page import signed

# Maximum probability that any comparison reports a difference although there is none, over all variants together.
_ALPHA = 0.05
POWER = 0.8
"""Probability of detecting the difference with the proposed number of cases."""

# Up to this many differences all subsets are enumerated; of more, this many random subsets and their complements.
_MOST_ENUMERATED, _PAIRS, _SEED = 12, 2_500, 20_040

Verdict = Literal["better", "worse", "no difference", "cannot be told"]
Interval = tuple[float, float]
"""Lower and upper limit."""


@dataclass(frozen=True, slots=True)
class CasePair:
    """The scores of a case with the baseline and with a variant."""

    case: str
    baseline: float
    variant: float
    baseline_passed: float
    """Share of the repeats that passed."""
    variant_passed: float
    difference: float


@dataclass(frozen=True, slots=True)
class MetricDifference:
    """A quantity of the baseline and of a variant."""

    baseline: float
    variant: float
    difference: float
    """Value of the variant minus that of the baseline; for a median, the median of the differences by case."""
    low: float | None
    high: float | None
    cases: int


@dataclass(slots=True)
class Comparison:
    """A variant compared with the baseline.

    `alpha` is the error probability of each interval; `cases_needed` estimates how many cases would detect the observed
    difference, None if it is 0 or detected; cases in `other_checks` are scored by the common checks, those in
    `not_comparable` have none.
    """

    variant: str
    baseline: str
    tolerance: float
    alpha: float
    verdict: Verdict = "cannot be told"
    regression: bool = False
    same_runs: bool = False
    cases_needed: int | None = None
    score: MetricDifference | None = None
    passed: MetricDifference | None = None
    medians: dict[str, MetricDifference] = field(default_factory=dict)
    pairs: list[CasePair] = field(default_factory=list)
    only_baseline: list[str] = field(default_factory=list)
    only_variant: list[str] = field(default_factory=list)
    other_checks: list[str] = field(default_factory=list)
    not_comparable: list[str] = field(default_factory=list)


def comparisons(result: EvalResult, tolerance: float = 0.0) -> tuple[Comparison, ...]:
    """Compare each variant with the baseline, or with the first one; a score difference up to the tolerance is none."""
    base = next((one for one in result.variants if one.is_baseline), *result.variants[:1])
    others = [one.name for one in result.variants if one is not base]
    return tuple(_compared(result, Comparison(name, base.name, tolerance, _ALPHA / len(others))) for name in others)


def _compared(result: EvalResult, one: Comparison) -> Comparison:
    """Fill in a comparison."""
    before, after = result.by_case(one.baseline), result.by_case(one.variant)
    for case in dict.fromkeys([*result.cases, *before, *after]):
        if case not in before or case not in after:
            if case in before or case in after:
                (one.only_baseline if case in before else one.only_variant).append(case)
            continue
        # A failed run has no checks, and scores 0 whatever they are.
        runs = [run for run in (*before[case], *after[case]) if run.status != "failed" or run.checks]
        names = [{check.name for check in run.checks} for run in runs]
        common, every = set.intersection(*names) if names else set[str](), set[str]().union(*names)
        if common != every:
            (one.other_checks if common else one.not_comparable).append(case)
        if common or not every:
            sides = before[case], after[case]
            first, second = (fmean(run.score_by(common) for run in side) for side in sides)
            passed, now_passed = (fmean(run.passes(common) for run in side) for side in sides)
            one.pairs.append(CasePair(case, first, second, passed, now_passed, exact(second - first)))
    one.score = _metric([(pair.baseline, pair.variant) for pair in one.pairs], one.alpha, fmean, mean_interval)
    shares = [(pair.baseline_passed, pair.variant_passed) for pair in one.pairs]
    one.passed = _metric(shares, one.alpha, fmean, mean_interval)
    for amount in AMOUNTS:
        known = []
        for pair in one.pairs:
            left, right = ([getattr(run, amount) for run in of[pair.case]] for of in (before, after))
            known += [(fmean(left), fmean(right))] if None not in (*left, *right) else []
        if metric := _metric(known, one.alpha, median, median_interval):
            one.medians[amount] = metric
    ids = [{run.run_id for runs in side.values() for run in runs} for side in (before, after)]
    one.same_runs = bool(before) and ids[0] == ids[1]
    low, high = (one.score.low, one.score.high) if one.score else (None, None)
    if one.same_runs or (low is not None and high is not None and -one.tolerance <= low and high <= one.tolerance):
        one.verdict = "no difference"
    elif low is not None and low > 0:
        one.verdict = "better"
    elif high is not None and high < 0:
        one.verdict, one.regression = "worse", high < -one.tolerance
    else:
        one.cases_needed = cases_needed([pair.difference for pair in one.pairs], one.alpha)
    return one


def _metric(
    pairs: Sequence[tuple[float, float]],
    alpha: float,
    center: Callable[[Iterable[float]], float],
    interval: Callable[[Sequence[float], float], Interval | None],
) -> MetricDifference | None:
    """Return a quantity of both sides by mean or median and its interval; None without pairs."""
    if not pairs:
        return None
    differences = [exact(right - left) for left, right in pairs]
    low, high = interval(differences, alpha) or (None, None)
    before, after = (center(side) for side in zip(*pairs, strict=True))
    return MetricDifference(before, after, exact(center(differences)), low, high, len(pairs))


def exact(value: float) -> float:
    """Return a difference without floating-point error, so that 0.1 + 0.2 - 0.3 is 0."""
    return round(value, 12)


def mean_interval(differences: Sequence[float], alpha: float) -> Interval | None:
    """Return the interval of the mean difference, or None if there are too few differences for any.

    It holds the values that a sign-flip test does not reject: if a change has no effect, it excludes 0 with a
    probability of at most `alpha`, whatever the distribution. It contains the mean, and equal values give equal limits.
    Source: Hartigan, "Using subsample values as typical values", JASA 64 (1969) 1303-1317.
    """
    if not differences or len(differences) < fewest_cases(alpha):
        return None
    means = sorted(exact(mean) for mean in _subset_means(differences))
    # The empty subset is the data as they are, and counts on both sides.
    rank = floor(alpha / 2 * (len(means) + 1) + 1e-9)
    return means[rank - 1], means[-rank]


def _subset_means(values: Sequence[float]) -> Iterator[float]:
    """Yield the means of all subsets but the empty one, or of the whole and of random pairs of complements."""
    if len(values) <= _MOST_ENUMERATED:
        sums = [(0.0, 0)]
        for value in values:
            sums += [(total + value, count + 1) for total, count in sums]
        yield from (total / count for total, count in sums[1:])
        return
    whole = sum(values)
    yield whole / len(values)
    random = Random(_SEED)  # noqa: S311 - a sample, not a secret
    for _ in range(_PAIRS):
        chosen = random.randrange(1, 2 ** len(values) - 1)
        # With the complement, so that the mean of all values is never outside the interval.
        part, count = sum(compress(values, map(int, f"{chosen:0{len(values)}b}"))), chosen.bit_count()
        yield part / count
        yield (whole - part) / (len(values) - count)


def median_interval(differences: Sequence[float], alpha: float) -> Interval | None:
    """Return the interval of the median difference by the exact sign test, or None if there are too few differences."""
    count = len(differences)
    rank, below = 0, 1
    # `below` of the 2**count sequences of signs have at most `rank` negative ones.
    while count and below <= alpha / 2 * 2**count:
        rank += 1
        below += comb(count, rank)
    ordered = sorted(exact(one) for one in differences)
    return (ordered[rank - 1], ordered[-rank]) if rank else None


def fewest_cases(alpha: float) -> int:
    """Return the minimum number of cases to detect any difference; with fewer, chance too often gives equal signs."""
    return ceil(log2(2 / alpha) - 1e-9)


def cases_needed(differences: Sequence[float], alpha: float) -> int | None:
    """Return the number of cases that would detect a difference with this mean and variance, with a power of `POWER`.

    At least one more than the present number; None if the mean is 0, because no number of cases would detect that.
    The formula is that of a paired t test, to which a sign-flip test is equivalent in large samples:
    n = ((z(1 - alpha/2) + z(power)) * deviation / mean)**2 + z(1 - alpha/2)**2 / 2.
    Source: Guenther, "Sample size formulas for normal theory t tests", The American Statistician 35 (1981) 243-244.
    """
    mean = exact(fmean(differences)) if differences else 0.0
    if not mean:
        return None
    certain, likely = NormalDist().inv_cdf(1 - alpha / 2), NormalDist().inv_cdf(POWER)
    # Unknown with a single difference; a million times the mean must give a useless number, not an overflow.
    deviation = min(stdev(differences) / abs(mean), 1e6) if len(differences) > 1 else 0.0
    count = ((certain + likely) * deviation) ** 2 + certain**2 / 2
    return max(ceil(count), fewest_cases(alpha), len(differences) + 1)


def verdict_text(one: Comparison) -> str:
    """Return a verdict as one sentence, without the name of the variant."""
    score, base, cases = one.score, one.baseline, counted(len(one.pairs), "case")
    if score is None:
        return f"Cannot be compared with {base}: no case has an ended run on both sides."
    interval = ""
    if score.low is not None and score.high is not None:
        interval = f" ({100 * (1 - one.alpha):.3g} % interval {signed(score.low)} to {signed(score.high)})"
    over = f"score {signed(score.difference)} over {cases}{interval}"
    tolerance, fewest = f"the tolerance of {one.tolerance:g}", fewest_cases(one.alpha)
    match one.verdict:
        case "no difference" if one.same_runs:
            return f"No difference from {base}: both have the same inputs, so their runs are the same."
        case "no difference" if not any(pair.difference for pair in one.pairs):
            return f"No difference from {base}: each of the {cases} has the same score."
        case "no difference":
            return f"No difference from {base} that is larger than {tolerance}: {over}."
        case "better" | "worse":
            more = ""
            if one.tolerance and one.verdict == "worse":
                more = f"{'' if one.regression else ', but not certainly'} by more than {tolerance}"
            return f"{one.verdict.capitalize()} than {base}{more}: {over}."
    why = f"score {signed(score.difference)}{interval}; "
    if not score.difference:
        needed = f"; it takes at least {counted(fewest, 'case')}" if len(one.pairs) < fewest else ""
        why = f"the mean scores are equal{interval}{needed}"
    else:
        why += f"about {counted(one.cases_needed or fewest, 'case')} would be needed to detect such a difference"
    return f"Cannot be told with {cases} whether it differs from {base}: {why}."


def notes(one: Comparison) -> list[str]:
    """Return what a comparison left out, one sentence each."""
    found = [
        (one.only_baseline, "left out, because only the baseline has an ended run"),
        (one.only_variant, "left out, because the baseline has no ended run"),
        (one.not_comparable, "left out, because no check was made on both sides"),
        (one.other_checks, "compared by the checks that were made on both sides"),
    ]
    return [f"{', '.join(cases)}: {why}" for cases, why in found if cases]


def as_json(result: EvalResult, compared: Sequence[Comparison] = ()) -> dict[str, Any]:
    """Return everything known about an eval, with the score of each run, and the comparisons of its variants."""
    values = asdict(result)
    runs = [
        {**run, "passed": one.passed, "score": round(one.score, 6)}
        for run, one in zip(values["runs"], result.runs, strict=True)
    ]
    return {
        "eval": values.pop("eval_id"),
        **values,
        "runs": runs,
        "comparison": [
            {**asdict(one), "cases": len(one.pairs), "text": verdict_text(one), "notes": notes(one)} for one in compared
        ],
    }


# Characters that XML 1.0 cannot contain, and control characters that it discourages.
_NOT_XML = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(result: EvalResult, comparisons: Sequence[Comparison] = ()) -> str:
    """Return a document with a suite per variant and a test per case; several repeats are one test.

    Cases that the baseline failed are skipped tests, because they are not failures of the version under test.
    comparisons: with the requested baseline; each is a test that fails on a regression.
    """
    root = ET.Element("testsuites", {"name": f"eval of {result.specialist}"})
    for variant in result.variants:
        name = f"{result.specialist}: {variant.name}{' (baseline)' if variant.is_baseline else ''}"
        suite = ET.SubElement(root, "testsuite", {"name": name})
        for case in result.cases:
            runs = [one for one in result.runs if (one.case, one.variant) == (case, variant.name)]
            seconds = f"{sum(one.seconds for one in runs):.3f}"
            test = ET.SubElement(suite, "testcase", {"classname": name, "name": case, "time": seconds})
            _fill(test, runs, is_baseline=variant.is_baseline)
        for one in comparisons:
            if one.variant == variant.name:
                named = {"classname": name, "name": f"compared with {one.baseline}", "time": "0.000"}
                test, text = ET.SubElement(suite, "testcase", named), verdict_text(one)
                tag, about = ("failure", {"message": text}) if one.regression else ("system-out", {})
                ET.SubElement(test, tag, about).text = text
    for element in (*root, root):
        tests = [*element.iter("testcase")]
        element.set("tests", str(len(tests)))
        for key, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            element.set(key, str(sum(test.find(tag) is not None for test in tests)))
        element.set("time", f"{sum(float(test.attrib['time']) for test in tests):.3f}")
    ET.indent(root)
    text = _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", ET.tostring(root, encoding="unicode"))
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'


def _fill(test: ET.Element, runs: Sequence[CaseRun], *, is_baseline: bool) -> None:
    """Add the results of the runs of a case to its test."""
    ended = [one for one in runs if one.has_ended]
    bad = [one for one in ended if not one.passed]
    lines = []
    for run in bad:
        reasons = [f"{one.name}: {one.reason or 'not held'}" for one in run.checks if one.value is False]
        reasons += [run.error] if run.error else []
        reasons = reasons or [f"the run has the status {run.status}"]
        lines += [(f"repeat {run.repeat}, run {run.run_id}", " ".join(one.split())) for one in reasons]
    if not ended:
        why = next((one.error for one in runs if one.error), "it did not run")
        ET.SubElement(test, "skipped", {"message": why})
    elif bad:
        kind = "error" if all(one.status == "failed" for one in bad) else "failure"
        message = f"{len(bad)} of {len(ended)} runs did not pass" if len(ended) > 1 else lines[0][1]
        about = ET.SubElement(test, "skipped" if is_baseline else kind, {"message": message})
        about.text = "\n".join(map(": ".join, lines))
    if ids := [one.run_id for one in runs if one.run_id]:
        ET.SubElement(test, "system-out").text = "".join(f"specialists report {one}\n" for one in ids)

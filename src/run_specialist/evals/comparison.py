"""Compare two sets of results pair by pair; the verdicts as text, JSON and JUnit."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import ceil, comb, floor, log2
from random import Random
from statistics import NormalDist, fmean, median, stdev
from typing import Any, Literal
from xml.etree import ElementTree as ET

from run_specialist.evals.plan import CaseRun, EvalResult, Variant


@dataclass(frozen=True, slots=True)
class CasePair:
    """The scores of a case with the baseline and with a variant."""

    case: str
    baseline: float
    variant: float
    baseline_passed: float
    """Share of the repeats that passed."""
    variant_passed: float

    @property
    def difference(self) -> float:
        """The score of the variant minus that of the baseline."""
        return exact(self.variant - self.baseline)


@dataclass(frozen=True, slots=True)
class PairedVariants:
    """The results of two variants, by case."""

    pairs: tuple[CasePair, ...]
    """In the order of the cases."""
    only_baseline: tuple[str, ...] = ()
    """Cases without an ended run of the variant."""
    only_variant: tuple[str, ...] = ()
    """Cases without an ended run of the baseline."""
    other_checks: tuple[str, ...] = ()
    """Cases in which some checks were made on one side only; their scores count only the common checks."""
    not_comparable: tuple[str, ...] = ()
    """Cases without a common check, which are omitted."""


def paired(cases: Iterable[str], baseline: Sequence[CaseRun], variant: Sequence[CaseRun]) -> PairedVariants:
    """Pair the ended runs of two variants by case."""
    ours, theirs = _by_case(baseline), _by_case(variant)
    names = list(dict.fromkeys([*cases, *ours, *theirs]))
    pairs: list[CasePair] = []
    unlike: list[str] = []
    lacking: list[str] = []
    for case in names:
        before, after = ours.get(case), theirs.get(case)
        if not before or not after:
            continue
        known, every = _checks([*before, *after])
        if known != every:
            (unlike if known else lacking).append(case)
        if known or not every:
            pairs.append(
                CasePair(
                    case,
                    fmean(_score(one, known) for one in before),
                    fmean(_score(one, known) for one in after),
                    fmean(_passed(one, known) for one in before),
                    fmean(_passed(one, known) for one in after),
                )
            )
    return PairedVariants(
        tuple(pairs),
        tuple(case for case in names if case in ours and case not in theirs),
        tuple(case for case in names if case in theirs and case not in ours),
        tuple(unlike),
        tuple(lacking),
    )


def amounts(
    pairs: Iterable[CasePair],
    baseline: Sequence[CaseRun],
    variant: Sequence[CaseRun],
    of: Callable[[CaseRun], float | None],
) -> list[tuple[float, float]]:
    """Return an amount of both sides for each pair, as the mean over the repeats; unknown amounts are omitted."""
    before, after = _by_case(baseline), _by_case(variant)
    found = ((_mean(before[one.case], of), _mean(after[one.case], of)) for one in pairs)
    return [(left, right) for left, right in found if left is not None and right is not None]


def _by_case(runs: Iterable[CaseRun]) -> dict[str, list[CaseRun]]:
    found: dict[str, list[CaseRun]] = defaultdict(list)
    for one in runs:
        if one.has_ended:
            found[one.case].append(one)
    return dict(found)


def _checks(runs: Iterable[CaseRun]) -> tuple[frozenset[str], frozenset[str]]:
    """Return the names of the checks that all of these runs have, and that any has; failed runs do not count."""
    names = [frozenset(check.name for check in one.checks) for one in runs if one.status != "failed" or one.checks]
    return frozenset.intersection(*names) if names else frozenset(), frozenset().union(*names)


def _score(run: CaseRun, checks: frozenset[str]) -> float:
    if run.status == "failed":
        return 0.0
    scores = [one.score for one in run.checks if one.name in checks and one.score is not None]
    return fmean(scores) if scores else 1.0


def _passed(run: CaseRun, checks: frozenset[str]) -> bool:
    return run.status != "failed" and all(one.value is not False for one in run.checks if one.name in checks)


def _mean(runs: Sequence[CaseRun], of: Callable[[CaseRun], float | None]) -> float | None:
    values = [of(one) for one in runs]
    known = [one for one in values if one is not None]
    return fmean(known) if len(known) == len(values) else None


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
    score = _metric(scores, alpha, fmean, mean_interval)
    same_runs = bool(before) and {one.run_id for one in before} == {one.run_id for one in after}
    verdict, is_regression = _verdict(score, tolerance, same_runs=same_runs)
    needed = cases_needed([one.difference for one in both.pairs], alpha) if verdict == "cannot be told" else None
    medians = {
        name: _metric(amounts(both.pairs, before, after, of), alpha, median, median_interval)
        for name, of in _AMOUNTS.items()
    }
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
        _metric([(one.baseline_passed, one.variant_passed) for one in both.pairs], alpha, fmean, mean_interval),
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


def _metric(
    pairs: Sequence[tuple[float, float]],
    alpha: float,
    center: Callable[[Iterable[float]], float],
    interval: "Callable[[Sequence[float], float], Interval | None]",
) -> MetricDifference | None:
    """Return a quantity of both sides; None without pairs.

    center, interval: mean or median, and its interval.
    """
    if not pairs:
        return None
    differences = [exact(right - left) for left, right in pairs]
    low, high = interval(differences, alpha) or (None, None)
    before, after = (center(side) for side in zip(*pairs, strict=True))
    return MetricDifference(before, after, exact(center(differences)), low, high, len(pairs))


POWER = 0.8
"""Probability of detecting the difference with the proposed number of cases."""

_MOST_ENUMERATED = 12
"""Maximum number of differences for which all subsets are enumerated."""
_PAIRS = 2_500
"""Number of random subset-complement pairs that are tried for more differences."""
_FEWEST_PAIRS = 500
_MOST_ADDITIONS = 5_000_000
_SEED = 20_040
_DIGITS = 12
_BYTE = 8

Interval = tuple[float, float]
"""Lower and upper limit."""


def exact(value: float) -> float:
    """Return a difference without floating-point error, so that 0.1 + 0.2 - 0.3 is 0."""
    return round(value, _DIGITS)


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
    if len(differences) == 1:
        # A single difference has no deviation that could be estimated.
        return fewest_cases(alpha)
    deviation = stdev(differences)
    certain, likely = NormalDist().inv_cdf(1 - alpha / 2), NormalDist().inv_cdf(POWER)
    # A deviation of a million times the mean must give a useless number, not an overflow.
    count = ((certain + likely) * min(deviation / abs(mean), 1e6)) ** 2 + certain**2 / 2
    return max(ceil(count), fewest_cases(alpha), len(differences) + 1)


def _subset_means(values: Sequence[float]) -> Iterator[float]:
    """Yield the means of all subsets but the empty one, or of the whole and of random pairs of complements.

    With each subset its complement is used, so that the mean of all values is never outside the interval.
    """
    if len(values) <= _MOST_ENUMERATED:
        sums = _subset_sums(values)
        yield from (sums[chosen] / chosen.bit_count() for chosen in range(1, len(sums)))
        return
    whole = sum(values)
    yield whole / len(values)
    random = Random(_SEED)  # noqa: S311 - a sample, not a secret
    tables = [_subset_sums(values[at : at + _BYTE]) for at in range(0, len(values), _BYTE)]
    for _ in range(max(min(_PAIRS, _MOST_ADDITIONS // len(tables)), _FEWEST_PAIRS) - 1):
        chosen = random.randrange(1, 2 ** len(values) - 1)
        places = chosen.to_bytes(len(tables), "little")
        part = sum(table[place] for table, place in zip(tables, places, strict=True))
        count = chosen.bit_count()
        yield part / count
        yield (whole - part) / (len(values) - count)


def _subset_sums(values: Sequence[float]) -> list[float]:
    """Return the sums of all subsets of a few values, by the bits of the index."""
    sums = [0.0]
    for chosen in range(1, 2 ** len(values)):
        sums.append(sums[chosen & (chosen - 1)] + values[(chosen & -chosen).bit_length() - 1])
    return sums


_NOT_XML = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 cannot contain, and control characters that it discourages."""


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
                about = {"classname": name, "name": f"compared with {one.baseline}", "time": "0.000"}
                test, text = ET.SubElement(suite, "testcase", about), verdict_text(one)
                if one.regression:
                    ET.SubElement(test, "failure", {"message": text}).text = text
                else:
                    ET.SubElement(test, "system-out").text = text
    for element in (*root, root):
        tests = [*element.iter("testcase")]
        element.set("tests", str(len(tests)))
        for key, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            element.set(key, str(sum(test.find(tag) is not None for test in tests)))
        element.set("time", f"{sum(float(test.attrib['time']) for test in tests):.3f}")
    for element in root.iter():
        element.text = element.text and _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", element.text)
        for key, value in element.items():
            element.set(key, _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", value))
    ET.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


def _fill(test: ET.Element, runs: Sequence[CaseRun], *, is_baseline: bool) -> None:
    """Add what came of the runs of a case."""
    ended = [one for one in runs if one.has_ended]
    bad = [one for one in ended if not one.passed]
    if not ended:
        ET.SubElement(test, "skipped", {"message": next((one.error for one in runs if one.error), "it did not run")})
    elif bad:
        message = f"{len(bad)} of {len(ended)} runs did not pass" if len(ended) > 1 else _reasons(bad[0])[0]
        kind = "skipped" if is_baseline else "error" if all(one.status == "failed" for one in bad) else "failure"
        ET.SubElement(test, kind, {"message": message}).text = "\n".join(
            f"repeat {one.repeat}, run {one.run_id or 'none'}: {' '.join(why.split())}"
            for one in bad
            for why in _reasons(one)
        )
    if ids := [one.run_id for one in runs if one.run_id]:
        ET.SubElement(test, "system-out").text = "".join(f"specialists report {one}\n" for one in ids)


def _reasons(run: CaseRun) -> list[str]:
    """Return why a run did not pass, one line per reason; never empty."""
    checks = [f"{one.name}: {one.reason or 'not held'}" for one in run.checks if one.value is False]
    return [*checks, *([run.error] if run.error else [])] or [f"the run has the status {run.status}"]


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


def as_json(result: EvalResult, compared: Sequence[Comparison] = ()) -> dict[str, Any]:
    """Return everything known about an eval, with the score of each run, and the comparisons of its variants."""
    return {
        "eval": result.eval_id,
        "specialist": result.specialist,
        "cases": list(result.cases),
        "variants": [{**asdict(one), "settings": dict(one.settings)} for one in result.variants],
        "runs": [
            {
                **asdict(one),
                "checks": [asdict(check) for check in one.checks],
                "passed": one.passed,
                "score": round(one.score, 6),
            }
            for one in result.runs
        ],
        "comparison": [comparison_json(one) for one in compared],
    }


def comparison_json(one: Comparison) -> dict[str, Any]:
    """Return a comparison as JSON values, with its verdict in words."""
    values = asdict(one)
    both = values.pop("paired")
    pairs = [
        {**pair, "difference": of.difference} for pair, of in zip(both.pop("pairs"), one.paired.pairs, strict=True)
    ]
    return {**values, **both, "cases": one.cases, "pairs": pairs, "text": verdict_text(one), "notes": notes(one)}

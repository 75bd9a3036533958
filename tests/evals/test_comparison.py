"""Comparisons of variants, and their verdicts in words."""

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from run_specialist.evals.comparison import comparisons, notes, verdict_text
from run_specialist.evals.plan import EvalResult
from tests.evals.compared_runs import BASE, NEW, case_run, result_of
from tests.plugins.tiers import examples

SCORES = st.lists(st.tuples(st.sampled_from([0.0, 0.25, 0.5, 1.0]), st.sampled_from([0.0, 0.5, 1.0])), max_size=15)


def compared(before, after, tolerance=0.0, **given):
    """Return the comparison of one variant."""
    (one,) = comparisons(result_of(before, after, **given), tolerance)
    return one


@pytest.mark.exhaustive(one_in=2)
@pytest.mark.parametrize(("cases", "rounds"), [(8, examples(800)), (30, 100)])
def test_e10_without_an_effect_seldom_a_verdict(cases, rounds):
    """Both sides pass each case with the same probability: at most one comparison in twenty names a winner."""
    chance = random.Random(11)  # noqa: S311 - a simulation
    false = 0
    for _ in range(rounds):
        hard = [chance.random() for _ in range(cases)]
        before, after = ([float(chance.random() < one) for one in hard] for _ in range(2))
        false += compared(before, after).verdict in {"better", "worse"}
    # Three standard deviations above 5 %.
    assert false / rounds <= 0.05 + 3 * (0.05 * 0.95 / rounds) ** 0.5


def test_e10_several_variants_share_the_error_probability():
    """The more variants are compared, the wider is the interval of each, so that all of them hold together."""
    scores = [0.5] * 10, [0.6, 0.4, 0.7, 0.6, 0.6, 0.6, 0.7, 0.5, 0.6, 0.7]
    alone = compared(*scores)
    first, *others = comparisons(result_of(*scores, more={"b": scores[1], "c": scores[0]}))
    assert (alone.alpha, first.alpha) == (0.05, 0.05 / 3)
    assert first.score.low < alone.score.low
    assert [one.variant for one in others] == ["b", "c"]
    assert (alone.verdict, first.verdict) == ("better", "cannot be told")


@given(SCORES, st.sampled_from([0.0, 0.05, 0.5]))
def test_exchanging_the_sides_mirrors_the_comparison(scores, tolerance):
    """Better becomes worse, each difference is negated, and the interval contains the difference."""
    before, after = [one for one, _ in scores], [one for _, one in scores]
    one, other = compared(before, after, tolerance), compared(after, before, tolerance)
    opposite = {"better": "worse", "worse": "better"}
    assert other.verdict == opposite.get(one.verdict, one.verdict)
    assert other.cases_needed == one.cases_needed
    if one.score is not None:
        assert other.score.difference == -one.score.difference
        if one.score.low is not None:
            assert one.score.low <= one.score.difference <= one.score.high
            assert (-other.score.high, -other.score.low) == (one.score.low, one.score.high)


@pytest.mark.parametrize(
    ("before", "after", "tolerance", "verdict", "regression", "text"),
    [
        ([0.2] * 8, [1.0] * 8, 0, "better", False, "Better than main: score +0.80 over 8 cases (95 % interval"),
        ([1.0] * 8, [0.2] * 8, 0, "worse", True, "Worse than main: score -0.80 over 8 cases (95 % interval -0.80"),
        ([1.0] * 8, [0.2] * 8, 0.1, "worse", True, "Worse than main by more than the tolerance of 0.1: score -0.80"),
        ([1.0] * 8, [0.9] * 7 + [0.1], 0.1, "worse", False, "main, but not certainly by more than the tolerance of 0"),
        ([0.5] * 8, [0.5] * 8, 0, "no difference", False, "No difference from main: each of the 8 cases has the sam"),
        ([1.0] * 5, [0.0] * 5, 0, "cannot be told", False, "with 5 cases whether it differs from main: score -1.00; "),
        ([1.0] * 5, [1.0] * 5, 0, "cannot be told", False, "the mean scores are equal; it takes at least 6 cases."),
        ([0.0] * 8, [0.0] * 7 + [1.0], 0, "cannot be told", False, "; about 65 cases would be needed to detect such a"),
        ([None] * 3, [1.0] * 3, 0, "cannot be told", False, "Cannot be compared with main: no case has an ended run"),
    ],
)
def test_verdicts(before, after, tolerance, verdict, regression, text):
    """A regression is a loss whose whole interval is beyond the tolerance; an undecided comparison is not one."""
    one = compared(before, after, tolerance)
    assert (one.verdict, one.regression) == (verdict, regression)
    assert text in verdict_text(one)


def test_cases_of_one_side_are_named():
    """A case that ended on one side only is left out of all differences, and named."""
    result = result_of([1.0, None, 0.5], [1.0, 1.0, None])
    aborted = case_run("case 3", "as it is", 0.0, status="aborted")
    (one,) = comparisons(replace(result, runs=(*result.runs, aborted)))
    assert [pair.case for pair in one.pairs] == ["case 1"]
    assert notes(one) == [
        "case 3: left out, because only the baseline has an ended run",
        "case 2: left out, because the baseline has no ended run",
    ]


def test_e10_only_common_checks_are_compared():
    """A check that one side lacks, e.g. as its judge failed, changes no difference; a failed run scores 0."""
    runs = (
        case_run("a", "main", 1.0, 0.0),
        case_run("a", "as it is", 1.0),
        case_run("b", "main", 1.0, 1.0),
        case_run("b", "as it is", status="failed"),
        case_run("c", "main"),
        case_run("c", "as it is", 1.0),
        case_run("d", "main"),
        case_run("d", "as it is"),
    )
    (one,) = comparisons(EvalResult("e", "s", ("a", "b", "c", "d"), (BASE, NEW), runs))
    assert [(pair.case, pair.difference) for pair in one.pairs] == [("a", 0), ("b", -1), ("d", 0)]
    assert (one.other_checks, one.not_comparable) == (["a"], ["c"])
    assert [pair.variant_passed for pair in one.pairs] == [1, 0, 1]
    assert one.passed.baseline == pytest.approx(1.0)


def test_amounts_are_compared_by_their_medians():
    """Cost, calls, tokens and seconds: medians of the cases, and of their differences; unknown costs are left out."""
    runs = [
        case_run(f"case {at}", name, 1.0, tool_calls=at + more, seconds=at * 2.0, cost_usd=cost)
        for at in range(1, 8)
        for name, more, cost in (("main", 0, 0.5), ("as it is", 3, None if at < 3 else 0.25))
    ]
    (one,) = comparisons(EvalResult("e", "s", (), (BASE, NEW), tuple(runs)))
    calls, cost = one.medians["tool_calls"], one.medians["cost_usd"]
    assert (calls.baseline, calls.variant, calls.difference, calls.low, calls.cases) == (4, 7, 3, 3, 7)
    assert (cost.difference, cost.low, cost.cases) == (-0.25, None, 5)
    assert one.medians["seconds"].difference == 0
    unknown = comparisons(replace(result_of([1.0], [1.0]), runs=(runs[0], runs[1])))[0]
    assert "cost_usd" not in unknown.medians

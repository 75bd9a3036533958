"""Intervals of paired differences."""

import itertools
from statistics import fmean, median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from run_specialist.evals.comparison import cases_needed, fewest_cases, mean_interval, median_interval

DIFFERENCES = st.lists(st.floats(-1, 1), min_size=6, max_size=16)


def one_sided(differences, value):
    """Return the share of all changes of signs that leave the sum of deviations from `value` at least as large."""
    deviations = [one - value for one in differences]
    flipped = [
        sum(sign * one for sign, one in zip(signs, deviations, strict=True))
        for signs in itertools.product((1, -1), repeat=len(deviations))
    ]
    return fmean(one >= sum(deviations) - 1e-9 for one in flipped)


@given(st.lists(st.integers(-8, 8).map(lambda one: one / 8), min_size=6, max_size=8))
def test_the_limits_are_those_of_a_sign_flip_test(differences):
    """A value inside is not rejected at 2.5 % a side, one just outside is; all signs are tried for comparison."""
    low, high = mean_interval(differences, 0.05)
    assert one_sided(differences, low) > 0.025
    assert one_sided(differences, low - 1e-6) <= 0.025
    mirrored = [-one for one in differences]
    assert one_sided(mirrored, -high) > 0.025
    assert one_sided(mirrored, -high - 1e-6) <= 0.025


@given(DIFFERENCES)
def test_the_interval_contains_the_mean_and_mirrors(differences):
    """With few and with many differences; exchanging the sides exchanges and negates the limits."""
    low, high = mean_interval(differences, 0.05)
    assert low - 1e-9 <= fmean(differences) <= high + 1e-9
    assert mean_interval([-one for one in differences], 0.05) == pytest.approx((-high, -low), abs=1e-9)
    assert mean_interval(differences, 0.05) == (low, high)
    below, above = median_interval(differences, 0.05)
    assert below <= median(differences) + 1e-9
    assert above >= median(differences) - 1e-9


def test_e10_too_few_cases_have_no_interval():
    """Five equal signs occur by chance once in sixteen; six suffice, and a smaller error probability needs more."""
    assert [fewest_cases(alpha) for alpha in (0.05, 0.05 / 2, 0.05 / 3)] == [6, 7, 7]
    assert mean_interval([], 0.05) is median_interval([], 0.05) is None
    assert mean_interval([1.0] * 5, 0.05) is median_interval([1.0] * 5, 0.05) is None
    assert mean_interval([1.0] * 6, 0.05) == median_interval([1.0] * 6, 0.05) == (1.0, 1.0)
    assert mean_interval([1.0] * 6, 0.025) is None


def test_the_error_of_floating_numbers_is_no_difference():
    """0.1 + 0.2 - 0.3 in each case is not a gain."""
    assert mean_interval([0.1 + 0.2 - 0.3] * 8, 0.05) == (0.0, 0.0)
    assert mean_interval([0.1 + 0.2 - 0.3] * 20, 0.05) == (0.0, 0.0)
    assert cases_needed([0.1 + 0.2 - 0.3] * 8, 0.05) is None


@pytest.mark.parametrize(
    ("differences", "needed"),
    [
        # Mean 0.1, deviation 0.6325: (2.8016 * 6.325)**2 + 1.92.
        ([0.7, -0.5] * 5, 316),
        ([0.2] * 9, 10),
        ([0.2, -0.2], None),
        ([], None),
    ],
)
def test_how_many_cases_would_be_needed(differences, needed):
    """By the formula of a paired t test, but at least the fewest possible, and more than there are."""
    assert cases_needed(differences, 0.05) == needed

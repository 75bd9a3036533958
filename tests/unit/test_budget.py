"""The budget: limits, what remains, and the three phases."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from run_specialist.budget import Budget, Kind, Limit, Phase

CALLS = Kind.TOOL_CALLS


@pytest.mark.parametrize("limit", range(41))
def test_x_1_phases_of_every_small_limit(limit):
    """Silent while 2k < N, spent from k = N on, countdown in between."""
    for used in range(limit + 2):
        phase = Limit(CALLS, limit, used).phase
        expected = Phase.SPENT if used >= limit else Phase.SILENT if 2 * used < limit else Phase.COUNTDOWN
        assert phase is expected, (limit, used)


@given(st.integers(0, 10**9), st.integers(0, 10**9))
def test_remaining_is_never_negative(limit, used):
    """What remains and what is used make up the limit until it is exceeded."""
    one = Limit(CALLS, limit, used)
    assert one.remaining == max(limit - used, 0)
    assert (one.phase is Phase.SPENT) == (one.remaining == 0)


@given(st.lists(st.integers(0, 9)))
def test_spending_adds_up_and_keeps_the_old_value(amounts):
    """`spend` returns a new budget; the one before stays as it was."""
    budget = first = Budget.of({CALLS: 100})
    for amount in amounts:
        budget = budget.spend(amount)
    assert budget[CALLS].used == sum(amounts)
    assert first[CALLS].used == 0


def test_s0_8_no_limit_is_always_silent():
    """Without a limit nothing is ever spent."""
    budget = Budget.of({CALLS: None}).spend(10_000)
    assert budget.phase is Phase.SILENT
    assert budget[CALLS].remaining is None


@pytest.mark.parametrize(
    ("start", "limit", "first"), [(0.8, 30, 24), (0.55, 20, 11), (0.7, 10, 7), (3, 5, 2), (0, 5, 5), (1.0, 5, 5)]
)
def test_countdown_starts_at_a_share_spent_or_at_calls_left(start, limit, first):
    """A float is the share that is spent, an integer what remains; both are exact."""
    phases = [Limit(CALLS, limit, used, start).phase for used in range(limit + 1)]
    assert [phase is Phase.SILENT for phase in phases] == [used < first for used in range(limit + 1)]


def test_the_tightest_kind_speaks_for_the_run():
    """The phase of a budget is that of the kind with the largest share spent."""
    budget = Budget.of({CALLS: 10, Kind.TURNS: 4}).spend(1).spend(2, Kind.TURNS)
    assert budget.tightest.kind is Kind.TURNS
    assert budget.phase is Phase.COUNTDOWN


def test_negative_spending_is_refused():
    """Nobody can earn budget."""
    with pytest.raises(ValueError, match="negative"):
        Budget.of({}).spend(-1)


def test_a_limit_of_0_is_the_tightest_of_all():
    """Nothing can be tighter than nothing."""
    budget = Budget.of({CALLS: 10, Kind.TURNS: 0}).spend(9)
    assert budget.tightest.kind is Kind.TURNS
    assert budget.phase is Phase.SPENT

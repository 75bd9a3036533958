"""The budget: limits, remaining amounts and the three phases.

The environment variable EXAMPLES sets the number of generated sequences of operations.
"""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from run_specialist.budget import Budget, Kind, Limit, Phase
from tests.plugins.tiers import examples

CALLS = Kind.TOOL_CALLS
EXAMPLES = examples(60)


@pytest.mark.parametrize("limit", range(41))
def test_x_1_phases_of_every_small_limit(limit):
    """A limit of N is silent while 2k < N, spent from k = N on, and counts down in between."""
    for used in range(limit + 2):
        phase = Limit(CALLS, limit, used).phase
        expected = Phase.SPENT if used >= limit else Phase.SILENT if 2 * used < limit else Phase.COUNTDOWN
        assert phase is expected, (limit, used)


def test_s0_8_without_a_limit_the_phase_is_silent():
    """Without a limit the phase is always silent."""
    budget = Budget.of({CALLS: None}).spend(10_000)
    assert budget.phase is Phase.SILENT
    assert budget[CALLS].remaining is None


@pytest.mark.parametrize(
    ("start", "limit", "first"), [(0.8, 30, 24), (0.55, 20, 11), (0.7, 10, 7), (3, 5, 2), (0, 5, 5), (1.0, 5, 5)]
)
def test_countdown_starts_at_a_share_spent_or_at_calls_left(start, limit, first):
    """The countdown starts at a spent share (float) or at a remaining number (int), both exact."""
    phases = [Limit(CALLS, limit, used, start).phase for used in range(limit + 1)]
    assert [phase is Phase.SILENT for phase in phases] == [used < first for used in range(limit + 1)]


@pytest.mark.parametrize(
    ("limits", "spent", "tightest"),
    [
        ({Kind.CHARACTERS: 10}, {}, Kind.CHARACTERS),
        ({CALLS: 10, Kind.TOKENS: 100}, {CALLS: 5, Kind.TOKENS: 90}, Kind.TOKENS),
        ({CALLS: 10, Kind.TURNS: 4}, {CALLS: 9, Kind.TURNS: 3}, Kind.TURNS),
        ({CALLS: 0, Kind.TOKENS: 100}, {Kind.TOKENS: 100}, CALLS),
        ({CALLS: 10, Kind.COST: 0}, {CALLS: 10}, CALLS),
        ({}, {CALLS: 7, Kind.TOKENS: 9}, CALLS),
    ],
)
def test_the_tightest_limit_has_the_furthest_phase_then_share(limits, spent, tightest):
    """The tightest limit is the one furthest in its phase, then in its spent share.

    An unlimited kind is never the tightest, a reserved turn counts, and a limit of 0 is entirely spent.
    """
    assert Budget.of(limits).spend_all(spent).tightest.kind is tightest


@pytest.mark.parametrize(("share", "limit", "first"), [(0.07, 100, 7), (0.29, 100, 29), (0.57, 100, 57)])
def test_a_share_is_exact_as_written(share, limit, first):
    """A share is exact as written: 0.07 of 100 is 7, which floating point rounds up to slightly more."""
    assert share * limit > first or int(share * limit) < first
    assert Limit(CALLS, limit, first, share).phase is Phase.COUNTDOWN
    assert Limit(CALLS, limit, first - 1, share).phase is Phase.SILENT


def test_an_integer_countdown_start_applies_only_to_tool_calls():
    """An integer start of the countdown applies to tool calls; the other kinds then start at the default share."""
    budget = Budget.of({CALLS: 10, Kind.TOKENS: 100}, 3)
    assert (budget[CALLS].countdown_from, budget[Kind.TOKENS].countdown_from) == (3, 0.5)
    assert Budget.of({CALLS: 10, Kind.TOKENS: 100}, None)[Kind.TOKENS].countdown_from is None


class AnyBudget(RuleBasedStateMachine):
    """Compares a budget with a naive one under any sequence of operations."""

    @initialize(limits=st.fixed_dictionaries({kind: st.none() | st.integers(0, 60) for kind in Kind}))
    def begin(self, limits):
        """Set the limits; the naive budget is four sums by kind."""
        self.budget = Budget.of(limits)
        self.limits, self.used, self.lent = limits, dict.fromkeys(Kind, 0), dict.fromkeys(Kind, 0)
        self.held = {kind: self.budget[kind].held_back for kind in Kind}
        self.furthest = 0

    @rule(kind=st.sampled_from(Kind), amount=st.integers(0, 9))
    def spend(self, kind, amount):
        """Spend an amount, as a reply, a result or the clock does."""
        self.budget = self.budget.spend(amount, kind)
        self.used[kind] += amount

    @rule(wanted=st.integers(1, 6))
    def call(self, wanted):
        """Execute calls as the dispatcher does: no more than remain."""
        left = self.budget[CALLS].remaining
        executed = wanted if left is None else min(wanted, left)
        self.budget = self.budget.spend(executed)
        self.used[CALLS] += executed
        if self.limits[CALLS] is not None and executed:
            assert self.used[CALLS] + self.lent[CALLS] <= self.limits[CALLS]

    @rule(kind=st.sampled_from(Kind), share=st.floats(0, 1))
    def lend(self, kind, share):
        """Lend a part of the remaining amount."""
        left = self.budget[kind].until_landing
        amount = int((left if left is not None else 9) * share)
        self.budget = self.budget.lend(amount, kind)
        self.lent[kind] += amount

    @rule(kind=st.sampled_from(Kind))
    def settle(self, kind):
        """Take back everything that was lent."""
        self.budget = self.budget.lend(-self.lent[kind], kind)
        self.lent[kind] = 0

    @rule(kind=st.sampled_from(Kind), more=st.integers(0, 9))
    def hold(self, kind, more):
        """Increase the reserve, as a larger request does."""
        self.held[kind] += more
        self.budget = self.budget.hold(self.held[kind], kind)

    @invariant()
    def agrees(self):
        """Compare all amounts with the naive budget, and check that the phase never goes back."""
        for kind in Kind:
            one, limit = self.budget[kind], self.limits[kind]
            assert (one.used, one.lent, one.held_back) == (self.used[kind], self.lent[kind], self.held[kind])
            taken = self.used[kind] + self.lent[kind]
            assert one.remaining == (None if limit is None else max(limit - taken, 0))
            assert one.until_landing == (None if limit is None else max(limit - taken - self.held[kind], 0))
            is_spent = limit is not None and self.used[kind] + self.held[kind] >= limit
            is_late = limit is not None and 2 * self.used[kind] >= limit
            assert one.phase is (Phase.SPENT if is_spent else Phase.COUNTDOWN if is_late else Phase.SILENT)
        order = [Phase.SILENT, Phase.COUNTDOWN, Phase.SPENT]
        now = order.index(self.budget.phase)
        assert now == max(order.index(one.phase) for one in self.budget.limits)
        assert now >= self.furthest
        self.furthest = now


TestAnyBudget = AnyBudget.TestCase
TestAnyBudget.settings = settings(max_examples=EXAMPLES, stateful_step_count=30)

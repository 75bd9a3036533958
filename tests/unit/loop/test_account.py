"""The account of a run: what it has spent, and what it reserves for its landing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from run_specialist.budget import Budget, Kind, Phase
from run_specialist.loop.account import MAX_TOKENS, MIN_REPLY_TOKENS, Account
from run_specialist.record.messages import Usage
from run_specialist.record.outcome import Child
from tests.loop_jobs import Clock
from tests.scripted_provider import ScriptedProvider


def account(limits, clock=None, **provider):
    """Return a started account with a scripted provider, where 1,000 tokens cost a cent."""
    opened = Account(Budget.of(limits), ScriptedProvider([], **provider), clock or Clock())
    opened.start()
    return opened


@pytest.mark.parametrize(("limit", "held"), [(600, 60), (60, 6), (20, 5), (8, 4), (1, 0.5)])
def test_x_14_a_tenth_of_the_time_is_reserved_at_least_5_s_at_most_half(limit, held):
    """Of time a tenth is reserved, at least 5 s and at most half of the limit."""
    clock = Clock()
    mine = account({Kind.TIME: limit}, clock)
    assert mine.seconds_left(in_landing=False) == pytest.approx(limit - held)
    clock.now += limit - held
    assert mine.budget.phase is Phase.SPENT
    assert mine.seconds_left(in_landing=False) == pytest.approx(0)
    assert mine.seconds_left(in_landing=True) == pytest.approx(held + limit / 10)
    clock.now += 1_000
    assert mine.seconds_left(in_landing=True) == 0


@given(st.integers(1, 10**7), st.integers(1, 200_000))
def test_a_reply_may_use_at_most_half_of_the_limit(limit, most):
    """A reply may use at most the model's maximum and half of the limit.

    Small limits leave at least two replies, large ones the usual reply size.
    """
    mine = account({Kind.TOKENS: limit}, max_output_tokens=most)
    assert 1 <= mine.max_tokens <= min(most, MAX_TOKENS)
    assert mine.max_tokens <= max(limit / 2, 1)
    assert mine.max_tokens >= min(most, MAX_TOKENS, limit // 2, MIN_REPLY_TOKENS)


@given(
    limit=st.integers(5_500, 100_000),
    first=st.integers(1, 2_000),
    later=st.lists(st.integers(0, 2_000), max_size=200),
    output=st.integers(0, 400),
)
def test_x_14_the_landing_fits_unless_requests_grow(limit, first, later, output):
    """The limit holds, even with the longest reply, if two requests fit at all and none is larger than the first."""
    mine = account({Kind.TOKENS: limit})
    sizes = iter([first, *(min(one, first) for one in later)])
    while mine.budget.phase is not Phase.SPENT and (size := next(sizes, None)) is not None:
        mine.book(Usage(size, 0, 0, min(output, mine.max_tokens)), in_landing=False)
    mine.book(Usage(first, 0, 0, mine.max_tokens), in_landing=True)
    assert mine.budget[Kind.TOKENS].used <= limit


KINDS = st.sampled_from([Kind.TURNS, Kind.TOOL_CALLS, Kind.CHARACTERS])
DOINGS = st.lists(
    st.one_of(
        st.builds(Usage, *[st.integers(0, 5_000)] * 4),
        st.tuples(KINDS, st.integers(0, 5)),
        st.builds(
            Child,
            st.sampled_from(["a", "b"]),
            st.just("finder"),
            st.just("answered"),
            st.integers(0, 3),
            st.builds(Usage, st.integers(0, 500)),
            st.sampled_from([0.0, 0.25, None]),
        ),
    ),
    max_size=12,
)
LIMITS = {Kind.TOKENS: 90_000, Kind.COST: 2.0, Kind.TURNS: 9, Kind.TOOL_CALLS: 30, Kind.TIME: 60}


def do(mine: Account, doings) -> None:
    """Apply requests, spendings and children to an account."""
    for what in doings:
        match what:
            case Usage():
                mine.book(what, in_landing=False)
            case Child():
                mine.adopt(what, {Kind.TOOL_CALLS: what.tool_calls, Kind.TOKENS: what.usage.total_tokens})
            case (kind, amount):
                mine.spend(amount, kind)


@given(first=DOINGS, later=DOINGS)
def test_an_account_restored_from_saved_state_continues_unchanged(first, later):
    """An account restored from saved state has the same budget, reserve, bill and children as an uninterrupted one."""
    clock = Clock()
    whole = account(LIMITS, clock)
    do(whole, first)
    clock.now += 3
    taken_up = Account(Budget.of(LIMITS), ScriptedProvider([]), clock, whole.snapshot())
    assert taken_up.budget == whole.budget
    taken_up.start()
    for mine in (whole, taken_up):
        do(mine, later)
    clock.now += 2
    for kind in Kind:
        assert taken_up.budget[kind].used == pytest.approx(whole.budget[kind].used)
        assert taken_up.budget[kind].held_back == pytest.approx(whole.budget[kind].held_back)
    assert taken_up.snapshot().total == whole.snapshot().total
    assert taken_up.children == whole.children == [one for one in (*first, *later) if isinstance(one, Child)]

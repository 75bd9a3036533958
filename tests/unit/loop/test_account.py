"""The account of a run: what it has spent, and what it reserves for its landing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from run_specialist.budget import Budget, Kind, Phase
from run_specialist.loop.account import MAX_TOKENS, MIN_REPLY_TOKENS, Account
from run_specialist.providers.scripted import ScriptedProvider
from run_specialist.record.messages import Usage
from run_specialist.record.outcome import Child
from tests.loop_jobs import Clock


def account(limits, clock=None, **provider):
    """Return a started account with a scripted provider, where 1,000 tokens cost a cent."""
    opened = Account(Budget.of(limits), ScriptedProvider([], **provider), clock or Clock())
    opened.start()
    return opened


def test_x_14_tokens_for_the_landing_are_reserved():
    """Of tokens, the largest input so far and a full reply are reserved, plus the growth of one more large request."""
    mine = account({Kind.TOKENS: 20_000})
    assert mine.max_tokens == 2_500
    mine.book(Usage(1_000, 2_000, 500, 100), in_landing=False)
    mine.book(Usage(600, 0, 0, 100), in_landing=False)
    limit = mine.budget[Kind.TOKENS]
    assert (limit.used, limit.held_back, limit.until_landing) == (4_300, 3_500 + 2_500 + 3_600, 6_100)
    mine.book(Usage(3_500), in_landing=False)
    mine.book(Usage(2_599), in_landing=False)
    assert mine.budget.phase is Phase.COUNTDOWN
    mine.book(Usage(1), in_landing=False)
    assert mine.budget.phase is Phase.SPENT


def test_x_14_cost_is_reserved_at_the_price_without_a_cache():
    """The cost reserve uses prices without a cache, since the landing may miss the cache for its entire input."""
    mine = account({Kind.COST: 0.4})
    assert mine.max_tokens == 5_000
    assert mine.book(Usage(1_000, 2_000, 0, 500), in_landing=False) == pytest.approx(0.035)
    limit = mine.budget[Kind.COST]
    assert (limit.used, limit.held_back) == (pytest.approx(0.035), pytest.approx(0.08 + 0.035))


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


def test_x_14_one_turn_is_reserved_for_the_landing():
    """Of turns one is reserved: a limit of 3 leaves two for work."""
    mine = account({Kind.TURNS: 3})
    mine.spend(1, Kind.TURNS)
    assert mine.budget.phase is Phase.SILENT
    mine.spend(1, Kind.TURNS)
    assert mine.budget.phase is Phase.SPENT


def test_time_is_counted_from_the_start_of_the_run():
    """Time is counted from the start of the run, however long the job waited before."""
    clock = Clock()
    mine = Account(Budget.of({Kind.TIME: 10}), ScriptedProvider([]), clock)
    clock.now += 50
    assert mine.budget[Kind.TIME].used == 0
    mine.start()
    clock.now += 2
    assert mine.budget[Kind.TIME].used == pytest.approx(2)


@given(st.integers(1, 10**7), st.integers(1, 200_000))
def test_a_reply_may_use_at_most_half_of_the_limit(limit, most):
    """A reply may use at most the model's maximum and half of the limit.

    Small limits leave at least two replies, large ones the usual reply size.
    """
    mine = account({Kind.TOKENS: limit}, max_output_tokens=most)
    assert 1 <= mine.max_tokens <= min(most, MAX_TOKENS)
    assert mine.max_tokens <= max(limit / 2, 1)
    assert mine.max_tokens >= min(most, MAX_TOKENS, limit // 2, MIN_REPLY_TOKENS)


def test_after_a_cut_a_reply_gets_twice_the_usual_size():
    """Without limits a reply gets the usual size, and twice that after it was cut off.

    It never gets more than the model's maximum.
    """
    mine = account({}, max_output_tokens=20_000)
    assert mine.max_tokens == MAX_TOKENS
    mine.raise_max_tokens()
    assert mine.max_tokens == 20_000


def test_the_landing_is_billed_apart_and_in_the_total():
    """The bill of the landing is listed separately and included in the total, both with usage and cost."""
    mine = account({})
    mine.book(Usage(1_000), in_landing=False)
    mine.book(Usage(2_000, 0, 0, 500), in_landing=True)
    assert (mine.total.usage, mine.total.cost_usd) == (Usage(3_000, 0, 0, 500), pytest.approx(0.035))
    assert (mine.landing.usage, mine.landing.cost_usd) == (Usage(2_000, 0, 0, 500), pytest.approx(0.025))


def test_a_total_with_one_unknown_price_is_unknown():
    """If one price is unknown, the total cost is unknown, since the sum of the known prices would be wrong."""
    provider = ScriptedProvider([])
    mine = Account(Budget.of({}), provider)
    mine.book(Usage(1_000), in_landing=False)
    provider.priced = False
    mine.book(Usage(1_000), in_landing=False)
    provider.priced = True
    mine.book(Usage(1_000), in_landing=False)
    assert mine.total.cost_usd is None


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


def test_x_14_the_reserve_follows_the_most_expensive_request():
    """The reserve follows the most expensive request so far, not the newest: an uncached one may come again."""
    mine = account({Kind.COST: 0.4})
    mine.book(Usage(10_000), in_landing=False)
    mine.book(Usage(100), in_landing=False)
    assert mine.budget[Kind.COST].held_back == pytest.approx(0.1 + 0.1 + mine.max_tokens / 100_000)


def test_x_14_the_reserve_grows_with_the_reply_size():
    """After a reply was cut off, the larger reply size is reserved for the landing immediately."""
    mine = account({Kind.TOKENS: 20_000})
    mine.raise_max_tokens()
    assert mine.max_tokens == 5_000
    assert mine.budget[Kind.TOKENS].held_back == 5_000

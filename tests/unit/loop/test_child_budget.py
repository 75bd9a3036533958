"""Shares of a budget lent to children: reserved at the start, never more than is left, returned at the end."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from run_specialist.budget import Budget, Kind
from run_specialist.loop.account import SHARED_KINDS, Account, ChildBudget
from run_specialist.loop.observing import Observers
from run_specialist.record.messages import Usage
from run_specialist.record.outcome import Child
from tests.scripted_provider import ScriptedProvider

CALLS = st.none() | st.integers(0, 40)


def account(**limits) -> Account:
    """Return an account with limits by kind."""
    return Account(Budget.of({Kind(kind): limit for kind, limit in limits.items()}), ScriptedProvider([]))


def child_budgets(one: Account, many: int, *, shared: bool = True) -> list[ChildBudget]:
    """Return the child budgets of the calls of one turn."""
    one.waiting_children = many
    return [ChildBudget(one, Observers(None, None, None), shared=shared) for _ in range(many)]


def child(calls: int = 0, tokens: int = 0, cost: float | None = 0.0) -> Child:
    """Return a child that spent these amounts."""
    return Child("r", "finder", "answered", calls, Usage(tokens), cost)


def want(calls: float | None) -> dict[Kind, float | None]:
    """Return the limits of a child with only a limit of tool calls."""
    return {**dict.fromkeys(SHARED_KINDS), Kind.TOOL_CALLS: calls}


@given(limit=st.integers(0, 40), used=st.integers(0, 40), wants=st.lists(CALLS, min_size=1, max_size=8))
def test_x_11_children_never_get_more_than_is_left(limit, used, wants):
    """However many children ask for however much, the total lent is at most what was left, in integral calls."""
    one = account(tool_calls=limit)
    one.spend(min(used, limit), Kind.TOOL_CALLS)
    left = one.budget[Kind.TOOL_CALLS].remaining
    lent = [
        budget.lend(want(calls), {})[Kind.TOOL_CALLS]
        for budget, calls in zip(child_budgets(one, len(wants)), wants, strict=True)
    ]
    assert sum(lent) <= left
    assert all(amount == int(amount) for amount in lent)
    assert all(calls is None or amount <= calls for amount, calls in zip(lent, wants, strict=True))
    assert one.budget[Kind.TOOL_CALLS].remaining == left - sum(lent)


@given(limit=st.integers(1, 40), wants=st.lists(st.integers(1, 40), min_size=1, max_size=8), data=st.data())
def test_x_11_unspent_loans_return_when_children_settle(limit, wants, data):
    """When all children have settled, the remainder is the limit minus what they spent, and nothing is lent."""
    one = account(tool_calls=limit)
    some = child_budgets(one, len(wants))
    lent = [budget.lend(want(calls), {})[Kind.TOOL_CALLS] for budget, calls in zip(some, wants, strict=True)]
    spent = [data.draw(st.integers(0, int(amount))) for amount in lent]
    for budget, calls in zip(some, spent, strict=True):
        budget.settle(child(calls))
    assert one.budget[Kind.TOOL_CALLS].used == sum(spent)
    assert one.budget[Kind.TOOL_CALLS].lent == 0
    assert len(one.children) == len(wants)


@pytest.mark.parametrize(
    ("limit", "wants", "lent"),
    [
        (9, [8, 8, 8], [3, 3, 3]),
        (10, [8, 8, 8], [3, 3, 4]),
        (9, [1, 8, 8], [1, 4, 4]),
        (2, [8, 8, 8], [1, 1, 0]),
        (0, [8], [0]),
        (9, [None], [9]),
        (None, [8, None], [8, None]),
    ],
)
def test_x_11_the_remainder_is_divided_evenly_among_waiting_children(limit, wants, lent):
    """What is left is divided evenly among the waiting children; what one does not use goes to the next."""
    one = account(tool_calls=limit)
    given_ = [
        budget.lend(want(calls), {})[Kind.TOOL_CALLS]
        for budget, calls in zip(child_budgets(one, len(wants)), wants, strict=True)
    ]
    assert given_ == lent


@pytest.mark.parametrize(
    ("limit", "least", "lent"), [(90, 50, [50, 20, 20]), (90, 20, [30, 30, 30]), (40, 50, [40, 0, 0])]
)
def test_x_11_a_share_that_is_too_small_is_raised_to_the_minimum(limit, least, lent):
    """A share too small to begin with is raised to the minimum while that much is left, never beyond what is left."""
    one = account(tokens=limit)
    one._spent = one._spent.hold(0, Kind.TOKENS)
    some = child_budgets(one, 3)
    parts = [
        budget.lend(dict.fromkeys(SHARED_KINDS), {Kind.TOKENS: least if place == 0 else 0})
        for place, budget in enumerate(some)
    ]
    assert [part[Kind.TOKENS] for part in parts] == lent

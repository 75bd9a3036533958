"""A cost limit is divided so that what is spent and granted never exceeds it, and nothing is lost."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from run_specialist.batch.batch import Batch, Bounds
from run_specialist.batch.limits import Grants
from run_specialist.batch.record import BatchRecord
from tests.unit.batch.scripted_items import Clock, ScriptedRuns, all_of, items, outcome

COSTS = st.floats(0, 10, allow_nan=False)
TINY = 1e-8
"""Error of sums of floating-point numbers [USD]."""


@given(
    limit=COSTS,
    slots=st.integers(1, 8),
    typical=COSTS,
    spent=COSTS,
    steps=st.lists(st.tuples(st.booleans(), st.floats(0, 1), st.none() | COSTS), max_size=60),
)
def test_what_is_spent_and_granted_never_exceeds_the_limit(limit, slots, typical, spent, steps):
    """Whatever is taken and returned in any order, each run spends at most its grant, and all grants come back."""
    grants, out = Grants(limit, slots, spent=spent, typical=typical), []
    before = spent
    for takes, share, most in steps:
        if takes and len(out) < slots:
            grant = grants.take(most)
            if grant is not None:
                assert most is None or grant <= most
                out.append(grant)
        elif out:
            grant = out.pop()
            grants.settle(grant, grant * share)
            before += grant * share
        assert grants.spent + grants.granted <= max(limit, spent) + TINY
        assert grants.granted == pytest.approx(sum(out))
        assert grants.spent == pytest.approx(before)
        assert grants.left >= 0
    for grant in out:
        grants.settle(grant, 0)
    assert grants.granted == 0
    assert grants.left == pytest.approx(max(limit - grants.spent, 0), abs=TINY)
    assert grants.is_exhausted == (grants.take() is None)


def test_a_share_is_at_least_a_typical_item_so_that_few_items_get_enough_instead_of_all_too_little():
    """Four of the eight slots get a quarter each, and the others wait."""
    grants = Grants(1.0, 8, typical=0.25)
    assert [grants.take() for _ in range(5)] == [0.25, 0.25, 0.25, 0.25, None]
    assert not grants.is_exhausted
    grants.settle(0.25, 0.05)
    assert grants.take() is None, "0.20 does not cover an item of 0.25"


class Record(BatchRecord):
    """Says that some runs are stored."""

    def __init__(self, costs):
        self._costs = costs

    async def open(self, items, stopped):
        """Return the stored runs with their costs."""
        return self._costs


@pytest.mark.anyio
async def test_what_earlier_calls_have_spent_counts_and_a_resumed_run_spends_only_the_rest():
    """A run of 0.3 that is resumed and ends at 0.5 has spent 0.2 now."""

    async def script(run, item):
        run.cost_before = 0.3
        return outcome(cost=0.5)

    clock, all_items = Clock(), items(1)
    stored = Record({"b1-0000000000000001": 0.3})
    batch = Batch(
        "b1", lambda: all_items, ScriptedRuns(script), Bounds(cost_limit=1.0), total=1, record=stored,
        clock=clock, sleep=clock.sleep,
    )  # fmt: skip
    await all_of(batch)
    assert batch._grants.spent == pytest.approx(0.5)
    assert batch._grants.granted == 0
    assert batch.cost_usd == pytest.approx(0.5)


@pytest.mark.anyio
async def test_a_limit_that_earlier_calls_have_spent_begins_nothing():
    """The costs of the stored runs also say what an item costs."""
    runs, clock, all_items = ScriptedRuns(None), Clock(), items(5)
    stored = Record({"b1-0000000000000001": 0.4, "b1-0000000000000002": 0.4})
    batch = Batch(
        "b1", lambda: all_items, runs, Bounds(cost_limit=1.0), total=5, record=stored, clock=clock, sleep=clock.sleep
    )
    assert await all_of(batch) == {}
    assert (runs.begun, batch.ended_because, batch.counts.not_run) == ([], "cost_limit", 5)

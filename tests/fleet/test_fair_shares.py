"""Which batch a free place goes to: equal shares for equal batches, first those of a higher priority."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from run_specialist.fleet.batches import Control
from run_specialist.fleet.worker import fair_shares
from tests.fleet.conftest import put_batch, until


@given(held=st.dictionaries(st.text(max_size=3), st.integers(0, 50), max_size=6), room=st.integers(0, 40))
def test_free_places_go_to_the_batches_that_have_fewest(held, room):
    """All places are given away, and no batch gets one while another has two fewer items at work."""
    shares = fair_shares(held, room)
    assert sum(shares.values()) == (room if held else 0)
    after = {one: held[one] + shares.get(one, 0) for one in held}
    assert all(after[one] <= min(after.values()) + 1 for one in shares if shares[one])


@pytest.mark.exhaustive
async def test_a_small_batch_does_not_wait_for_a_large_one(url, frozen, working, model):
    """Of two equal batches each gets half of the places at once, whichever was put first."""
    await put_batch(url, "b0000large", frozen, 30)
    await put_batch(url, "b0000small", frozen, 2, first=101)
    model.delay = 0.3
    async with working():
        await until(lambda: len({request.item for request in model.requests}) >= 4)
        begun = [*dict.fromkeys(request.item for request in model.requests)][:4]
    assert sorted(item > 100 for item in begun) == [False, False, True, True]


@pytest.mark.exhaustive
async def test_a_higher_priority_is_taken_first(url, frozen, working, model):
    """All places go to the batch with the higher priority; a later call changes the priority of all its items."""
    await put_batch(url, "b0000early", frozen, 8)
    await put_batch(url, "b0000urgent", frozen, 4, first=101)
    await put_batch(url, "b0000urgent", frozen | {"priority": 5}, 4, first=101)
    model.delay = 0.3
    async with working():
        await until(lambda: len({request.item for request in model.requests}) >= 4)
        begun = [*dict.fromkeys(request.item for request in model.requests)][:4]
    assert sorted(begun) == [101, 102, 103, 104]
    async with Control(url) as control:
        assert {one.batch_id for one in await control.status()} >= {"b0000early"}

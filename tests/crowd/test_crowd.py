"""Many concurrent children, a fifth of which fail: none is lost or counted twice, and no resources leak.

CHILDREN in the environment sets how many there are, SEED which of them fail; `bench/many_children.py` has more of them.
"""

import asyncio
import os

import pytest

from tests.crowd.crowd import FATES, alive, drawn, play, serving, unread, wrong
from tests.leak_check import Census, left_since
from tests.plugins.tiers import seed

CHILDREN = int(os.environ.get("CHILDREN", "40"))
FEW = len(FATES)
SEED = seed()


@pytest.mark.exhaustive
@pytest.mark.parametrize(("children", "stored"), [(FEW, True), (CHILDREN, False)], ids=["few, stored", "many"])
def test_every_child_has_one_outcome_and_its_objects_are_released(tmp_path, children, stored):
    """Each child has one outcome with the status of its fate; afterwards all objects of the runs are released.

    The server waits for the first request of every child before it answers any, so that all are active at the same
    time.
    """
    store, warming = (f"sqlite:///{tmp_path}/{name}.db" if stored else "none" for name in ("runs", "warming"))
    with serving() as server:
        # Objects that are imported and cached once are not a leak.
        asyncio.run(play(drawn(len(FATES), SEED), server, tmp_path, warming))
        server.expect(children)
        before, census = alive(), Census.take()
        crowd = asyncio.run(play(drawn(children, SEED), server, tmp_path, store))
        told = [*wrong(crowd, server), *(unread(store, crowd) if stored else [])]
        assert not told, f"SEED={SEED}: {told}"
        assert {fate for fate, _ in crowd.by_fate} == set(FATES)
        assert server.most_at_once == children
        del crowd
        assert left_since(census) == []
        assert alive() - before == {}

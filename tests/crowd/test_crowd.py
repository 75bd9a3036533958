"""Many children at once, a fifth of them failing at random: none is lost, none counts twice, nothing is left over.

CHILDREN in the environment says how many there are, SEED which of them fail; `bench/many_children.py` has more of them.
"""

import asyncio
import os
import random

import pytest

from tests.crowd.crowd import alive, play, unread, wrong
from tests.crowd.fates import FATES, drawn
from tests.crowd.server import serving
from tests.leaks import Census, left_since

CHILDREN = int(os.environ.get("CHILDREN", "70"))
SEED = int(os.environ.get("SEED", random.SystemRandom().randrange(2**32)))


@pytest.mark.parametrize("stored", [False, True], ids=["kept nowhere", "stored"])
def test_every_child_has_its_own_end_and_nothing_stays(tmp_path, stored):
    """Each has one outcome, of the status that its fate brings; afterwards all that the runs were made of is gone."""
    store, warming = (f"sqlite:///{tmp_path}/{name}.db" if stored else "none" for name in ("runs", "warming"))
    with serving() as server:
        # What is imported and cached once is no leak.
        asyncio.run(play(drawn(len(FATES), SEED), server, tmp_path, warming))
        server.requests.clear()
        before, census = alive(), Census.take()
        crowd = asyncio.run(play(drawn(CHILDREN, SEED), server, tmp_path, store))
        told = [*wrong(crowd, server), *(unread(store, crowd) if stored else [])]
        assert {fate for fate, _ in crowd.by_fate} == set(FATES)
        assert not told, f"SEED={SEED}: {told}"
        assert server.most_at_once > CHILDREN // 4, "they were not at work at once"
        del crowd
        assert left_since(census) == []
        assert alive() - before == {}

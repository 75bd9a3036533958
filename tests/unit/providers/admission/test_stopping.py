"""A request that waits at a gate when its run is to stop is not sent."""

import asyncio

import pytest

from run_specialist.errors import Unavailable
from run_specialist.loop.retries import StopSignal
from run_specialist.providers.admission import Gate
from run_specialist.providers.base import Queueing
from tests.unit.providers.admission.gated_requests import settle, turn

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("now", [True, False])
async def test_the_wait_ends_and_the_next_request_begins(now):
    """The stopped request leaves the queue, one behind it gets the place, and one under way is not disturbed."""
    gate, stop, first = Gate(), StopSignal(), asyncio.Event()

    async def ask(until, stopping=None):
        async with turn(gate, 1, Queueing(stopping=stopping)):
            await until.wait()

    at_once = asyncio.Event()
    at_once.set()
    under_way = asyncio.create_task(ask(first, stop))
    await asyncio.sleep(0)
    stopped, behind = asyncio.create_task(ask(at_once, stop)), asyncio.create_task(ask(at_once))
    await settle(gate, 2)
    stop.request(now=now)
    with pytest.raises(Unavailable, match="was stopped while"):
        await stopped
    await settle(gate, 1)
    assert not under_way.done()
    first.set()
    await asyncio.gather(under_way, behind)
    assert (len(gate.under_way), gate.waiting) == (0, 0)

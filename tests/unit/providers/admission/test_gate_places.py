"""No place at a gate is lost: requests that are cancelled, fail, or lose their event loop give it back."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from run_specialist.providers.admission import Gate
from run_specialist.providers.base import Queueing
from tests.unit.providers.admission.gated_requests import Refused, hold, settle, turn

pytestmark = pytest.mark.anyio


@given(st.sets(st.integers(0, 19)), st.sets(st.integers(0, 19)), st.integers(0, 40), st.integers(1, 4))
def test_r8_no_place_is_lost(cancelled, failing, later, ceiling):
    """Requests cancelled before, during or after their wait, and failing ones, leave the gate as if they never came."""
    gate = Gate()

    async def ask(name):
        async with turn(gate, ceiling):
            assert len(gate.under_way) <= ceiling
            await asyncio.sleep(0)
            if name in failing:
                raise Refused(529)

    async def play():
        tasks = [asyncio.create_task(ask(name)) for name in range(20)]
        for _ in range(later):
            await asyncio.sleep(0)
        for name in cancelled:
            tasks[name].cancel()
        return await asyncio.gather(*tasks, return_exceptions=True)

    results = asyncio.run(play())
    assert (len(gate.under_way), gate.waiting) == (0, 0)
    assert all(results[name] is None for name in set(range(20)) - cancelled - failing)


async def test_r8_a_listener_that_fails_costs_no_place(time):
    """An error in the report of a wait ends the request, and its place is free again."""
    gate, release = Gate(), asyncio.Event()
    holder = asyncio.create_task(hold(gate, [], "a", release))
    await asyncio.sleep(0)
    told = []

    def fail(event):
        told.append(event.phase)
        if event.phase == "finished":
            raise RuntimeError("a bug")

    waiter = asyncio.create_task(hold(gate, [], "b", release, ceiling=1, queueing=Queueing(fail)))
    await settle(gate, 1)
    await time.advance(2)
    release.set()
    await holder
    with pytest.raises(RuntimeError):
        await waiter
    assert (told, len(gate.under_way), gate.waiting) == (["started", "finished"], 0, 0)


async def test_r8_requests_of_a_loop_that_was_closed_are_forgotten(time):
    """An event loop that ends in the middle of a request, and of a wait, does not hold up the others for ever."""
    gate, dead = Gate(), asyncio.new_event_loop()

    def die():
        tasks = [dead.create_task(hold(gate, [], name, asyncio.Event(), ceiling=1)) for name in ("held", "waits")]
        dead.run_until_complete(asyncio.sleep(0.01))
        for task in tasks:
            task._log_destroy_pending = False
        dead.close()

    await asyncio.to_thread(die)
    assert (len(gate.under_way), gate.waiting) == (1, 1)
    begun, release = [], asyncio.Event()
    task = asyncio.create_task(hold(gate, begun, "next", release, ceiling=1))
    await settle(gate, 2)
    await time.advance(30)
    assert begun == ["next"]
    release.set()
    await task

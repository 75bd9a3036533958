"""Which request begins next: at once if nothing holds it, else in order, and past requests of another model."""

import asyncio
import threading

import pytest

from run_specialist.providers.admission import Gate
from tests.unit.providers.admission.gated_requests import hold, refuse, settle, turn

pytestmark = pytest.mark.anyio


async def test_r2_requests_that_need_not_wait_do_not():
    """Without limits a request begins without giving the event loop a turn."""
    gate = Gate()
    for _ in range(100):
        with pytest.raises(StopIteration):
            turn(gate).__aenter__().send(None)
    assert len(gate.under_way) == 100


async def test_r3_waiting_requests_begin_in_order():
    """With one at a time, the requests begin in the order in which they came."""
    gate, begun = Gate(), []

    async def ask(name):
        async with turn(gate, 1):
            begun.append(name)
            assert len(gate.under_way) == 1
            await asyncio.sleep(0)

    await asyncio.gather(*map(ask, range(50)))
    assert begun == [*range(50)]
    assert (len(gate.under_way), gate.waiting) == (0, 0)


async def test_r3_a_request_with_a_ceiling_gets_its_turn_among_others(time):
    """A request with a ceiling of 2 gets its turn among many without one, and after it the others are free again."""
    gate, begun, release = Gate(), [], asyncio.Event()
    free = [asyncio.create_task(hold(gate, begun, f"free {n}", release)) for n in range(3)]
    await asyncio.sleep(0)
    limited, over = [], asyncio.Event()
    task = asyncio.create_task(hold(gate, limited, "limited", over, ceiling=2))
    await settle(gate, 1)
    late = asyncio.create_task(hold(gate, begun, "late", release))
    await settle(gate, 2)
    assert (begun[-1], limited) == ("free 2", [])
    release.set()
    await asyncio.gather(*free, late)
    assert limited == ["limited"]
    over.set()
    await task
    with pytest.raises(StopIteration):
        turn(gate).__aenter__().send(None)


@pytest.mark.exhaustive
def test_r1_two_event_loops_share_a_gate():
    """Requests of two threads, each with its event loop, are under way one at a time, and all get their turn."""
    gate, most, counts = Gate(), [0], [0, 0]

    async def ask(thread):
        async with turn(gate, 1):
            most[0] = max(most[0], len(gate.under_way))
            await asyncio.sleep(0)
            counts[thread] += 1

    async def play(thread):
        await asyncio.gather(*(ask(thread) for _ in range(100)))

    threads = [threading.Thread(target=asyncio.run, args=(play(number),)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert (most, counts, len(gate.under_way), gate.waiting) == ([1], [100, 100], 0, 0)


async def test_m_8_a_request_of_another_model_passes_those_that_wait_for_the_first_one(time):
    """A request does not queue behind those of another model that was refused."""
    gate, release, begun = Gate(), asyncio.Event(), []
    await refuse(gate, wait=900)
    waiting = asyncio.ensure_future(hold(gate, begun, "m", release))
    await settle(gate, 1)
    async with asyncio.timeout(5), turn(gate, model="n"):
        assert (begun, gate.waiting) == ([], 1)
    release.set()
    await time.advance(1_000)
    await waiting
    assert begun == ["m"]

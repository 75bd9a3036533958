"""Requests start a few per turn of the event loop, in order, and none is forgotten."""

import asyncio
import gc
import weakref
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from run_specialist.providers.admission import PER_TURN, Pace, pace_of
from run_specialist.providers.anthropic import AnthropicProvider
from run_specialist.providers.base import Choice, Opening, Request
from run_specialist.providers.openai_chat import ChatProvider
from run_specialist.record.messages import Message
from run_specialist.tools.base import Toolset

pytestmark = pytest.mark.anyio


async def begin(paced=None):
    """Wait until one more request may start, as a request does."""
    loop = asyncio.get_running_loop()
    turn = (paced or pace_of(loop)).turn(loop)
    if turn is not None:
        await turn


class Turns:
    """Counts the turns of the running event loop."""

    def __init__(self) -> None:
        self.count = 0
        self._next()

    def _next(self) -> None:
        self.count += 1
        self._handle = asyncio.get_running_loop().call_soon(self._next)

    def stop(self) -> None:
        """Stop counting."""
        self._handle.cancel()


async def test_a_few_requests_start_without_waiting():
    """A few requests start immediately without waiting."""
    paced = Pace()
    for _ in range(PER_TURN):
        with pytest.raises(StopIteration):
            begin(paced).send(None)


async def test_many_requests_start_in_order_a_few_per_turn():
    """Many requests start in order; every turn of the loop starts its full number, except the last."""
    paced, begun = Pace(), []

    async def ask(name: int) -> None:
        await begin(paced)
        begun.append((name, turns.count))

    turns = Turns()
    await asyncio.gather(*map(ask, range(10 * PER_TURN)))
    turns.stop()
    assert [name for name, _ in begun] == [*range(10 * PER_TURN)]
    by_turn = [at for _, at in begun]
    assert [by_turn.count(at) for at in dict.fromkeys(by_turn)] == [PER_TURN] * 10


@given(st.sets(st.integers(0, 39)), st.integers(0, 6))
def test_a_cancelled_request_does_not_delay_the_others(cancelled, later):
    """A request cancelled before, during or after its start does not delay the others."""
    broken = []

    async def play() -> tuple[set[int], list[object]]:
        asyncio.get_running_loop().set_exception_handler(lambda _, told: broken.append(told))
        paced, begun = Pace(), set()

        async def ask(name: int) -> None:
            await begin(paced)
            begun.add(name)

        tasks = [asyncio.create_task(ask(name)) for name in range(40)]
        for _ in range(later):
            await asyncio.sleep(0)
        for name in cancelled:
            tasks[name].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return begun, [*paced._waiting]

    begun, waiting = asyncio.run(play())
    assert begun >= set(range(40)) - cancelled
    assert waiting == broken == []


def test_an_ended_loop_with_waiting_requests_is_forgotten():
    """A loop that ended with waiting requests delays no later loop and is not kept alive."""

    async def leave() -> weakref.ref[asyncio.AbstractEventLoop]:
        waiting = [asyncio.create_task(begin()) for _ in range(3 * PER_TURN)]
        await asyncio.sleep(0)
        assert not all(task.done() for task in waiting)
        return weakref.ref(asyncio.get_running_loop())

    async def go_on() -> None:
        await asyncio.gather(*(begin() for _ in range(3 * PER_TURN)))

    left = asyncio.run(leave())
    asyncio.run(go_on())
    gc.collect()
    assert left() is None


def test_a_closed_loop_with_waiting_requests_is_forgotten():
    """A loop closed by hand with waiting requests is forgotten when the next loop starts, and its waiters are freed."""

    def leave() -> weakref.ref[asyncio.AbstractEventLoop]:
        loop = asyncio.new_event_loop()
        waiting = [loop.create_task(begin()) for _ in range(10 * PER_TURN)]
        loop.run_until_complete(asyncio.sleep(0))
        assert not all(task.done() for task in waiting)
        for task in waiting:
            task._log_destroy_pending = False
        loop.close()
        return weakref.ref(loop)

    left = leave()
    asyncio.run(begin())
    gc.collect()
    assert left() is None


class Unanswered:
    """Replaces a client of either SDK whose server never answers."""

    base_url, timeout, max_retries = "http://127.0.0.1", None, 0

    def __init__(self) -> None:
        self.bodies: list[bytes] = []

    async def post(self, path, *, content, **_):
        """Record a request, and never answer it."""
        self.bodies.append(content)
        await asyncio.Event().wait()


@pytest.mark.parametrize("kind", [AnthropicProvider, ChatProvider])
async def test_many_simultaneous_requests_start_a_few_per_turn(kind):
    """Many simultaneous requests start a few per turn: waiting ones have no body yet, and finally all of them run."""
    children, client = 5 * PER_TURN, Unanswered()
    provider = kind("haiku", client)
    question = [Message.user("What?")]
    conversations = [provider.open(Opening("Look.", Toolset([]))) for _ in range(children)]
    asking = [asyncio.create_task(each.ask(Request(question, Choice.AUTO, 100))) for each in conversations]
    sent = []
    while len(client.bodies) < children:
        await asyncio.sleep(0)
        sent.append(len(client.bodies))
    new = [now - before for before, now in pairwise([0, *sent])]
    assert max(new) == PER_TURN
    for task in asking:
        task.cancel()
    await asyncio.gather(*asking, return_exceptions=True)

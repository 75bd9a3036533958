"""Blocking work runs in a thread that does nothing else meanwhile, and is kept for a moment."""

import asyncio
import contextvars
import os
import threading

import pytest

from run_specialist.tools import threads
from run_specialist.tools.threads import in_thread

pytestmark = pytest.mark.anyio
PATIENCE = 20


async def test_one_call_after_the_other_takes_the_same_thread():
    """To start one for each call would cost more than most of them."""
    first = await in_thread(threading.get_ident)
    assert first != threading.get_ident()
    assert {await in_thread(threading.get_ident) for _ in range(5)} == {first}


async def test_calls_at_once_have_a_thread_each():
    """All of them wait for one another, which none could in a thread that is shared."""
    together = threading.Barrier(20)
    waited = await asyncio.gather(*(in_thread(lambda: together.wait(PATIENCE)) for _ in range(20)))
    assert sorted(waited) == list(range(20))


async def test_a_thread_that_hangs_takes_no_more_work():
    """It is left to itself, and what comes next does not wait for it."""
    begun, gate = threading.Event(), threading.Event()

    def hang() -> int:
        begun.set()
        gate.wait(PATIENCE)
        return threading.get_ident()

    hanging = asyncio.ensure_future(in_thread(hang))
    assert await asyncio.to_thread(begun.wait, PATIENCE)
    others = {await in_thread(threading.get_ident) for _ in range(3)}
    gate.set()
    assert await hanging not in others


async def test_threads_without_work_end(monkeypatch):
    """Nothing is left over when nothing is done."""
    monkeypatch.setattr(threads, "IDLE_SECONDS", 0.01)
    idents = {await in_thread(threading.get_ident) for _ in range(2)}
    for thread in [one for one in threading.enumerate() if one.ident in idents]:
        await asyncio.to_thread(thread.join, PATIENCE)
        assert not thread.is_alive()
    assert await in_thread(lambda: "more") == "more"


async def test_each_call_sees_the_context_of_its_caller():
    """Nothing of an earlier call's context is left in its thread."""
    seen = []

    async def call(number):
        variable.set(number)
        seen.append(await in_thread(lambda: variable.get(None)))

    variable = contextvars.ContextVar("variable")
    for number in range(3):
        await asyncio.create_task(call(number))
    assert seen == [0, 1, 2]
    assert await in_thread(lambda: variable.get(None)) is None


@pytest.mark.skipif(not hasattr(os, "fork"), reason="fork: this system has none")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
async def test_a_child_process_has_threads_of_its_own():
    """Those that its parent keeps are not there after a fork."""
    await in_thread(int)
    assert threads._idle
    child = os.fork()
    if child == 0:
        os._exit(1 if threads._idle else 0)
    _, status = await asyncio.to_thread(os.waitpid, child, 0)
    assert os.waitstatus_to_exitcode(status) == 0

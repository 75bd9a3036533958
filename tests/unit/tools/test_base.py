"""A tool made from a function: its thread and its cancellation; and a toolset."""

import asyncio
import threading

import pytest

from run_specialist.budget import Budget
from run_specialist.tools.base import Context, Output, Toolset
from run_specialist.tools.python_tools import tool
from run_specialist.tools.threads import is_cancelled

pytestmark = pytest.mark.anyio

CONTEXT = Context("run-1", "call-1", Budget(()), 60)


async def test_functions_run_in_a_thread_and_coroutines_in_the_loop():
    """A plain function runs in a daemon thread with the caller's context, a coroutine in the event loop's thread."""
    threads = []

    @tool
    def plain() -> str:
        """Run."""
        threads.append(threading.current_thread())
        return "plain"

    @tool
    async def coroutine() -> str:
        """Run."""
        threads.append(threading.current_thread())
        return "coroutine"

    assert await asyncio.gather(plain.call({}), coroutine.call({})) == [Output("plain"), Output("coroutine")]
    assert {(thread is threading.main_thread(), thread.daemon) for thread in threads} == {(True, False), (False, True)}


async def test_the_result_of_a_cancelled_thread_is_discarded():
    """The result of a thread that ends after its call was cancelled is discarded."""
    begun, may_end, ended = threading.Event(), threading.Event(), threading.Event()

    @tool
    def slow() -> str:
        """Wait."""
        begun.set()
        may_end.wait(60)
        ended.set()
        return "late"

    task = asyncio.create_task(slow.call({}))
    await asyncio.to_thread(begun.wait, 10)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    may_end.set()
    assert await asyncio.to_thread(ended.wait, 10)


async def test_cancelling_a_call_runs_its_callbacks():
    """Cancelling a call runs the callbacks that its function registered with `when_cancelled`.

    The function can then end what it has started, which nothing else would end.
    """
    begun, ended = threading.Event(), threading.Event()

    @tool
    def slow(ctx: Context) -> str:
        """Wait for something that it has started."""
        ctx.when_cancelled(ended.set)
        begun.set()
        return str(ended.wait(30))

    task = asyncio.create_task(slow.call_within(60, {}, CONTEXT))
    await asyncio.to_thread(begun.wait, 30)
    assert not ended.is_set()
    task.cancel()
    assert await asyncio.to_thread(ended.wait, 30)


async def test_each_call_has_its_own_cancellation_state():
    """Each call has its own cancellation state, even when two calls share one context."""

    @tool
    def count():
        """Count."""
        yield is_cancelled()

    assert [(await count.call({}, CONTEXT)).text for _ in range(2)] == ["[false]", "[false]"]


def test_a_toolset_is_sorted_and_the_last_of_a_name_wins():
    """A toolset is sorted by name, because the prompt cache needs a fixed order; the last of a name wins."""

    def go() -> str:
        """Go."""
        return ""

    alpha, first, other = tool(name="alpha")(go), tool(go), tool(go)
    assert Toolset([first, alpha, other]).names == ("alpha", "go")
    assert Toolset([first, alpha, other]).get("go") is other

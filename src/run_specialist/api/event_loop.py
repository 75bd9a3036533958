"""Shut down an event loop in bounded time, and handle Ctrl-C in it."""

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any, TypeVar

_T = TypeVar("_T")


async def with_signal_wakeup(work: Coroutine[Any, Any, _T]) -> _T:
    """Await a coroutine and wake the event loop whenever a signal arrives.

    Python runs signal handlers in the main thread, once it executes bytecode again. A signal delivered to the main
    thread interrupts a sleeping loop there; a signal delivered to another thread does not. A loop that handles any
    signal is woken by all of them, so it handles one that nobody sends; all other handlers are left unchanged.
    Source: https://docs.python.org/3/library/signal.html#signal.set_wakeup_fd.
    """
    loop = asyncio.get_running_loop()
    try:
        loop.add_signal_handler(signal.SIGURG, int)
    except (AttributeError, NotImplementedError, RuntimeError, ValueError):
        # On Windows the loop handles this itself; in other threads no handler is called.
        return await work
    try:
        return await work
    finally:
        loop.remove_signal_handler(signal.SIGURG)


PATIENCE = 1.0
"""Time that cancelled tasks get for cleanup before they are abandoned [s]."""


async def with_bounded_cleanup(work: Coroutine[Any, Any, _T]) -> _T:
    """Await a coroutine, then cancel all other tasks and wait for them for a limited time.

    For use with `asyncio.run`, which would wait forever for a tool that ignores cancellation.
    """
    try:
        return await work
    finally:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        if others:
            for task in (await asyncio.wait(others, timeout=PATIENCE))[1]:
                task._log_destroy_pending = False  # type: ignore[attr-defined] # noqa: SLF001 - as `asyncio.gather`
                asyncio._unregister_task(task)  # noqa: SLF001 - documented under "Extending"

"""Shut down an event loop in bounded time, and handle Ctrl-C in it."""

import asyncio
import signal
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

_T = TypeVar("_T")

_NO_FD = -1
_READ_SIZE = 4096


async def with_signal_wakeup(work: Coroutine[Any, Any, _T]) -> _T:
    """Await a coroutine and wake the event loop whenever a signal arrives.

    Python runs signal handlers in the main thread, once it executes bytecode again. A signal delivered to the main
    thread interrupts a sleeping loop there; a signal delivered to another thread does not, so each signal also
    writes a byte to a socket that the loop reads.
    Installed signal handlers are left unchanged.
    Source: https://docs.python.org/3/library/signal.html#signal.set_wakeup_fd.
    """
    import socket  # noqa: PLC0415 - few programs need it

    loop = asyncio.get_running_loop()
    # uvloop and the default loop on Windows handle this themselves, and only the main thread runs signal handlers.
    if not isinstance(loop, asyncio.SelectorEventLoop) or threading.current_thread() is not threading.main_thread():
        return await work
    reader, writer = socket.socketpair()
    with reader, writer:
        writer.setblocking(False)
        before = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
        if before != _NO_FD:
            signal.set_wakeup_fd(before, warn_on_full_buffer=False)
            return await work
        loop.add_reader(reader, reader.recv, _READ_SIZE)
        try:
            return await work
        finally:
            # A descriptor that other code has set in the meantime is kept.
            current = signal.set_wakeup_fd(_NO_FD)
            if current not in {_NO_FD, writer.fileno()}:
                signal.set_wakeup_fd(current, warn_on_full_buffer=False)
            loop.remove_reader(reader)


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

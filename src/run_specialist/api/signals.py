"""Signals that the system hands to another thread, which a sleeping event loop would not hear."""

import asyncio
import signal
import socket
from collections.abc import Coroutine
from typing import Any, TypeVar

_T = TypeVar("_T")

_NOBODY = -1
_MANY = 4096


async def heard(doing: Coroutine[Any, Any, _T]) -> _T:
    """Return what comes of it, and let signals be heard meanwhile.

    Python runs the handler of a signal in the main thread, once that does something again. A loop that sleeps there is
    woken by a signal that reaches its own thread; for one that reaches another it needs a byte on a socket.
    Which handlers there are, and what they do, stays as it is.
    """
    loop = asyncio.get_running_loop()
    woken, waker = socket.socketpair()
    with woken, waker:
        waker.setblocking(False)
        if not _woken_by(waker, loop):
            return await doing
        loop.add_reader(woken, woken.recv, _MANY)
        try:
            return await doing
        finally:
            _leave(waker)
            loop.remove_reader(woken)


def _woken_by(waker: socket.socket, loop: asyncio.AbstractEventLoop) -> bool:
    """Have each signal write to a socket, unless the loop or the program sees to that itself."""
    # uvloop does, and so does the usual loop of Windows.
    if not isinstance(loop, asyncio.SelectorEventLoop):
        return False
    try:
        before = signal.set_wakeup_fd(waker.fileno(), warn_on_full_buffer=False)
    except ValueError:
        # Signals have nothing to do with this thread.
        return False
    if before != _NOBODY:
        signal.set_wakeup_fd(before, warn_on_full_buffer=False)
    return before == _NOBODY


def _leave(waker: socket.socket) -> None:
    """Have signals no longer write to a socket; what somebody else has them write to meanwhile stays."""
    now = signal.set_wakeup_fd(_NOBODY)
    if now not in {_NOBODY, waker.fileno()}:
        signal.set_wakeup_fd(now, warn_on_full_buffer=False)

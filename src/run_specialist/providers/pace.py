"""Limit how many requests start per iteration of the event loop, so that responses are processed in between.

Otherwise a thousand concurrent children would all have a request in progress: a thousand open connections, and ten
times as much memory for the garbage collector to scan. An idle event loop delays no request.
"""

import asyncio
from collections import deque
from weakref import WeakKeyDictionary

AT_ONCE = 2
"""Number of requests that may start per loop iteration."""


class Pace:
    """The FIFO queue of requests that wait to start in one event loop."""

    # Only waiting futures refer to the loop, so that the WeakKeyDictionary can drop the entries of dead loops.
    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._left = AT_ONCE
        self._counts = False

    async def begin(self) -> None:
        """Wait until one more request may start; return immediately if few requests start."""
        loop = asyncio.get_running_loop()
        if not self._counts:
            self._counts = True
            loop.call_soon(self._turn)
        if self._left:
            self._left -= 1
            return
        future = loop.create_future()
        self._waiting.append(future)
        await future

    def _turn(self) -> None:
        """Start the next requests; stop counting after an iteration in which none started."""
        self._counts, self._left = self._left < AT_ONCE, AT_ONCE
        if self._counts:
            asyncio.get_running_loop().call_soon(self._turn)
        while self._left and self._waiting:
            future = self._waiting.popleft()
            # Skip cancelled requests.
            if not future.done():
                future.set_result(None)
                self._left -= 1


_paces: WeakKeyDictionary[asyncio.AbstractEventLoop, Pace] = WeakKeyDictionary()


def pace() -> Pace:
    """Return the Pace of the running loop, shared by all its requests."""
    loop = asyncio.get_running_loop()
    found = _paces.get(loop)
    if found is None:
        _forget_closed()
        found = _paces[loop] = Pace()
    return found


def _forget_closed() -> None:
    # Waiting futures keep a closed loop alive. `keyrefs` returns a copy, since other threads may add entries.
    for reference in _paces.keyrefs():
        loop = reference()
        if loop is not None and loop.is_closed():
            _paces.pop(loop, None)

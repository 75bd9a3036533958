"""Requests begin a few in each turn of the event loop, so that what has come back is dealt with before more goes out.

A thousand children that ask at once would otherwise all be in the middle of a request: a thousand open connections, and
ten times as much in memory for the garbage collector to look through. A loop that has time to spare holds nobody up.
"""

import asyncio
from collections import deque
from weakref import WeakKeyDictionary

AT_ONCE = 2
"""Requests that begin in one turn of a loop."""


class Pace:
    """The requests that wait to begin in one loop, the oldest first."""

    # It holds no loop, but for those who wait in it: the loops that have one are remembered only as long as they live.
    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._left = AT_ONCE
        self._counts = False

    async def begin(self) -> None:
        """Wait until one more may begin; where few do, that is at once."""
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
        """Let the next ones begin; after a turn in which nobody did there is nothing to count."""
        self._counts, self._left = self._left < AT_ONCE, AT_ONCE
        if self._counts:
            asyncio.get_running_loop().call_soon(self._turn)
        while self._left and self._waiting:
            future = self._waiting.popleft()
            # Whoever was cancelled needs no turn.
            if not future.done():
                future.set_result(None)
                self._left -= 1


_paces: WeakKeyDictionary[asyncio.AbstractEventLoop, Pace] = WeakKeyDictionary()


def pace() -> Pace:
    """Return that of the running loop, which all its requests share."""
    loop = asyncio.get_running_loop()
    found = _paces.get(loop)
    if found is None:
        _forget_closed()
        found = _paces[loop] = Pace()
    return found


def _forget_closed() -> None:
    # Whoever waits in a loop that was closed meanwhile would hold it for ever. Other threads may add theirs just now.
    for reference in _paces.keyrefs():
        loop = reference()
        if loop is not None and loop.is_closed():
            _paces.pop(loop, None)

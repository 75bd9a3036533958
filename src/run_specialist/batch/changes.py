"""Wake the tasks of a batch when its state has changed."""

import asyncio
import math
from collections.abc import Awaitable, Callable

Sleep = Callable[[float], Awaitable[None]]
"""Waits for some seconds."""


class ChangeSignal:
    """Lets tasks wait for a change of state; after each wait they check their condition again."""

    def __init__(self, sleep: Sleep = asyncio.sleep) -> None:
        """Start without waiting tasks.

        sleep: replaced by tests.
        """
        self._event = asyncio.Event()
        self._sleep = sleep

    def happened(self) -> None:
        """Wake all waiting tasks."""
        self._event.set()

    async def wait(self, seconds: float = math.inf) -> None:
        """Wait for a change, but not longer than this many seconds."""
        self._event.clear()
        if math.isinf(seconds):
            await self._event.wait()
            return
        waits = [asyncio.ensure_future(self._event.wait()), asyncio.ensure_future(self._sleep(seconds))]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

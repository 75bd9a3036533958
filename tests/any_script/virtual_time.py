"""An event loop with virtual time: waiting takes no real time, and a wait that can never end raises an error."""

import asyncio
import selectors
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

_T = TypeVar("_T")


class Stuck(BaseException):
    """Every task waits, and no timer or event is left.

    Not an Exception, so that no part of a run handles it as the error of a tool or client.
    """


class _Selector(selectors.DefaultSelector):
    """Advance the virtual time immediately where a real selector would wait."""

    def __init__(self, wait: Callable[[float], None]) -> None:
        super().__init__()
        self._wait = wait
        self._others = threading.enumerate()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Return the ready file objects; if there are none, advance the virtual time to the next timer.

        A thread that this loop has started takes real time, during which the virtual time does not advance.
        """
        ready = super().select(0)
        is_waiting = timeout != 0
        while not ready and is_waiting:
            is_waiting = any(one not in self._others for one in threading.enumerate())
            ready = super().select(0.001 if is_waiting else 0)
        if not ready and timeout is None:
            raise Stuck("nobody will wake what waits")
        if not ready and timeout:
            self._wait(timeout)
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop that starts at 0 and jumps to the next timer when neither it nor its threads have work."""

    def __init__(self) -> None:
        self._now = 0.0
        super().__init__(_Selector(self._wait))

    def time(self) -> float:
        """Return the virtual time [s]."""
        return self._now

    def _wait(self, seconds: float) -> None:
        self._now += seconds


def run(work: Coroutine[Any, Any, _T]) -> _T:
    """Run a coroutine in virtual time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(work)

"""An event loop whose time is made up: waiting costs nothing, and a wait that nothing can end is an error."""

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

_T = TypeVar("_T")


class Stuck(BaseException):
    """Everybody waits, and nothing will come.

    Not an Exception, so that no part of a run can take it for an error of somebody else.
    """


class _Selector(selectors.DefaultSelector):
    """Lets the time pass at once where a real one would wait."""

    def __init__(self, wait: Callable[[float], None]) -> None:
        super().__init__()
        self._wait = wait

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Return what is ready now."""
        ready = super().select(0)
        if not ready and timeout is None:
            raise Stuck("nobody will wake what waits")
        if not ready and timeout:
            self._wait(timeout)
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """Begins at 0 and moves on to the next timer as soon as there is nothing else to do; knows no threads."""

    def __init__(self) -> None:
        self._now = 0.0
        super().__init__(_Selector(self._wait))

    def time(self) -> float:
        """Return the time that was made up so far [s]."""
        return self._now

    def _wait(self, seconds: float) -> None:
        self._now += seconds


def run(work: Coroutine[Any, Any, _T]) -> _T:
    """Run to the end in made-up time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(work)

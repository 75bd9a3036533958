"""An event loop with virtual time: waiting takes no real time, and a wait that can never end raises an error."""

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar
from unittest import mock

from run_specialist.tools import threads

_T = TypeVar("_T")


class Stuck(BaseException):
    """Every task waits, and no timer or event is left.

    Not an Exception, so that no part of a run handles it as the error of a tool or client.
    """


class _Selector(selectors.DefaultSelector):
    """Advance the virtual time at once where a real selector would wait."""

    def __init__(self, wait: Callable[[float], None]) -> None:
        super().__init__()
        self._wait = wait

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Return the ready file objects; if there are none, advance the virtual time to the next timer."""
        ready = super().select(0)
        if not ready and timeout is None:
            raise Stuck("nobody will wake what waits")
        if not ready and timeout:
            self._wait(timeout)
        return ready


class _WorkAtOnce:
    """A thread that has done its work when `start` returns, since no virtual time passes in a real one."""

    def __init__(self, *, target: Callable[..., object], args: tuple[object, ...], daemon: bool) -> None:
        assert daemon
        self._target, self._args = target, args

    def start(self) -> None:
        """Do the work."""
        self._target(*self._args)


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop that starts at 0 and jumps to the next timer when idle."""

    def __init__(self) -> None:
        self._now = 0.0
        super().__init__(_Selector(self._wait))

    def time(self) -> float:
        """Return the virtual time [s]."""
        return self._now

    def _wait(self, seconds: float) -> None:
        self._now += seconds


def run(work: Coroutine[Any, Any, _T]) -> _T:
    """Run a coroutine in virtual time; blocking work that it gives to threads is done at once."""
    with mock.patch.object(threads, "Thread", _WorkAtOnce), asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(work)

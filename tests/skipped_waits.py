"""Skip the waits before requests and between their attempts: they advance a clock of their own, one for each task."""

import asyncio
from collections.abc import Callable
from contextvars import ContextVar

from run_specialist.loop.retries import Retries
from run_specialist.providers.admission import Gate

_now: ContextVar[float] = ContextVar("_now", default=0.0)


async def _skip(seconds: float) -> None:
    _now.set(_now.get() + seconds)
    await asyncio.sleep(0)


async def _skip_unless_woken(future: asyncio.Future[None], seconds: float) -> None:
    # Other requests, which may wake this one, take real time.
    await asyncio.wait([future], timeout=0.005)
    if not future.done():
        _now.set(_now.get() + seconds)


def skip_waits(assign: Callable[[object, str, object], None] = setattr) -> None:
    """Replace clock and sleep of all requests.

    assign: `setattr`, or that of pytest's `monkeypatch`.
    """
    assign(Retries, "clock", staticmethod(_now.get))
    assign(Retries, "sleep", staticmethod(_skip))
    assign(Gate, "clock", staticmethod(_now.get))
    assign(Gate, "sleep", staticmethod(_skip_unless_woken))

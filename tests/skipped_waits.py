"""Skip the waits between two attempts of a request: they advance a clock of their own, one for each task."""

import asyncio
from collections.abc import Callable
from contextvars import ContextVar

from run_specialist.loop.retries import Retries

_now: ContextVar[float] = ContextVar("_now", default=0.0)


async def _skip(seconds: float) -> None:
    _now.set(_now.get() + seconds)
    await asyncio.sleep(0)


def skip_waits(assign: Callable[[object, str, object], None] = setattr) -> None:
    """Replace clock and sleep of all requests.

    assign: `setattr`, or that of pytest's `monkeypatch`.
    """
    assign(Retries, "clock", staticmethod(_now.get))
    assign(Retries, "sleep", staticmethod(_skip))

"""Shutdown of an event loop that does not wait forever for tasks that ignore cancellation."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

_T = TypeVar("_T")

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

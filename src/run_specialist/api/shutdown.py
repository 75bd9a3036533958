"""The end of an event loop of our own, which must not wait for what takes no notice of being cancelled."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

_T = TypeVar("_T")

PATIENCE = 1.0
"""What a cancelled task has to clean up before it is left to itself [s]."""


async def and_leave(doing: Coroutine[Any, Any, _T]) -> _T:
    """Return what comes of it, for `asyncio.run`, which would wait for ever for a tool that goes on regardless."""
    try:
        return await doing
    finally:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        if others:
            for task in (await asyncio.wait(others, timeout=PATIENCE))[1]:
                task._log_destroy_pending = False  # type: ignore[attr-defined] # noqa: SLF001 - as `asyncio.gather`
                asyncio._unregister_task(task)  # noqa: SLF001 - documented under "Extending"

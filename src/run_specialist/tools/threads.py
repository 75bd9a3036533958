"""Blocking work beside the event loop, which nothing has to wait for."""

import asyncio
import contextvars
from collections.abc import Callable
from contextlib import suppress
from threading import Thread
from typing import Any


async def in_thread(function: Callable[[], Any]) -> Any:  # noqa: ANN401 - what the function returns
    """Run a blocking function in a thread of its own.

    The thread is a daemon: one that hangs is given up at a timeout or an abort, and cannot keep the program from
    ending, as a thread of the loop's own pool would.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()

    def settle(result: Any, error: BaseException | None) -> None:  # noqa: ANN401 - as above
        if future.done():
            return
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)

    def work() -> None:
        result, failure = None, None
        try:
            result = function()
        except BaseException as error:  # noqa: BLE001 - raised again where it is awaited
            # No future takes the first of these, and the other one means that whoever waits is thrown away.
            failure = RuntimeError(repr(error)) if isinstance(error, StopIteration | GeneratorExit) else error
        with suppress(RuntimeError):  # the loop was closed meanwhile, and nobody waits any more
            loop.call_soon_threadsafe(settle, result, failure)

    Thread(target=contextvars.copy_context().run, args=(work,), daemon=True).start()
    return await future

"""Blocking work beside the event loop, which nothing has to wait for."""

import asyncio
import contextvars
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from contextvars import ContextVar
from threading import Thread
from typing import Any

_GIVEN_UP: ContextVar[Future[None] | None] = ContextVar("given_up", default=None)
"""Cancelled in a thread of `in_thread` once nobody waits for it any more."""


def is_cancelled() -> bool:
    """Tell, in a thread of `in_thread`, whether nobody waits for it any more; elsewhere it is always False."""
    given_up = _GIVEN_UP.get()
    return given_up is not None and given_up.cancelled()


def check_cancelled() -> None:
    """Raise CancelledError in a thread of `in_thread` that nobody waits for any more; elsewhere do nothing.

    Called in work that may take long, so that it does not go on in the background when its time is over.
    """
    given_up = _GIVEN_UP.get()  # not by `is_cancelled`: this is called for each entry of a walk
    if given_up is not None and given_up.cancelled():
        raise asyncio.CancelledError


def when_cancelled(call: Callable[[], object]) -> None:
    """Call a function once nobody waits for this thread of `in_thread` any more, at once if so already.

    The function is also called after the thread's result was taken, and never in other threads.
    """
    given_up = _GIVEN_UP.get()
    if given_up is not None:
        given_up.add_done_callback(lambda _: call())


async def in_thread(function: Callable[[], Any]) -> Any:  # noqa: ANN401 - what the function returns
    """Run a blocking function in a thread of its own.

    The thread is a daemon: one that hangs is given up at a timeout or an abort, and cannot keep the program from
    ending, as a thread of the loop's own pool would. The function can ask `is_cancelled` whether that has happened.
    """
    loop = asyncio.get_running_loop()
    given_up: Future[None] = Future()
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

    context = contextvars.copy_context()
    context.run(_GIVEN_UP.set, given_up)
    Thread(target=context.run, args=(work,), daemon=True).start()
    try:
        return await future
    finally:
        given_up.cancel()

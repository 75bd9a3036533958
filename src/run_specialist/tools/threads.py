"""Blocking work beside the event loop, which nothing has to wait for."""

import asyncio
import contextvars
import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any

Work = Callable[[], Callable[[], None]]
"""What is to be done; it returns what tells that it is."""
IDLE_SECONDS = 0.5
"""So long a thread waits for more work. A new one for each call costs a tenth of the time between two requests."""


async def in_thread(function: Callable[[], Any]) -> Any:  # noqa: ANN401 - what the function returns
    """Run a blocking function in a thread that does nothing else meanwhile.

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

    def work() -> Callable[[], None]:
        result, failure = None, None
        try:
            result = function()
        except BaseException as error:  # noqa: BLE001 - raised again where it is awaited
            # No future takes the first of these, and the other one means that whoever waits is thrown away.
            failure = RuntimeError(repr(error)) if isinstance(error, StopIteration | GeneratorExit) else error

        def tell() -> None:
            with suppress(RuntimeError):  # the loop was closed meanwhile, and nobody waits any more
                loop.call_soon_threadsafe(settle, result, failure)

        return tell

    try:
        hand = _idle.pop()
    except IndexError:
        hand = _Hand()
    hand.give(partial(contextvars.copy_context().run, work))
    return await future


class _Hand:
    """A thread that can be given one thing after the other."""

    def __init__(self) -> None:
        self._work: SimpleQueue[Work] = SimpleQueue()
        Thread(target=self._go, name="run-specialist tool", daemon=True).start()

    def give(self, work: Work) -> None:
        self._work.put(work)

    def _go(self) -> None:
        while True:
            try:
                work = self._work.get(timeout=IDLE_SECONDS)
            except Empty:
                try:
                    _idle.remove(self)
                except ValueError:
                    # Somebody has just taken it, and work is on its way.
                    continue
                return
            tell = work()
            # Whoever hears of it may have more to do.
            _idle.append(self)
            tell()
            # Neither the work nor what it holds may live on while nothing is to be done.
            del work, tell


_idle: list[_Hand] = []
if hasattr(os, "register_at_fork"):
    # The threads of a process are not those of its child.
    os.register_at_fork(after_in_child=_idle.clear)

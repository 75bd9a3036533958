"""A sleeping event loop handles signals, whichever thread the system delivers them to."""

import asyncio
import os
import signal
import sys
import threading

import pytest

from run_specialist.api.event_loop import with_signal_wakeup

PATIENCE = 90

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows sends no signal to a thread")


@pytest.fixture(autouse=True)
def handler():
    """Install a program's signal handler, which must stay installed."""
    before = signal.getsignal(signal.SIGUSR1)
    yield
    signal.signal(signal.SIGUSR1, before)


async def sleeps() -> str:
    """Sleep until a signal reaches another thread, and return what woke the loop."""
    loop = asyncio.get_running_loop()
    came = loop.create_future()

    def wake(word: str) -> None:
        loop.call_soon_threadsafe(lambda: came.done() or came.set_result(word))

    signal.signal(signal.SIGUSR1, lambda *_: wake("the signal"))
    # A thread instead of a timer of the loop, because a timer would wake the loop and let it notice the signal.
    too_late = threading.Timer(PATIENCE, wake, ["the clock"])
    for thread in (too_late, threading.Thread(target=strike, daemon=True)):
        thread.start()
    try:
        return await came
    finally:
        too_late.cancel()


def strike() -> None:
    """Send this thread a signal once the main thread is waiting in the loop."""
    main = threading.main_thread().ident
    while sys._current_frames()[main].f_code.co_name != "select":
        pass
    signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)


def woken_by() -> int:
    """Remove the file descriptor to which Python writes signals, and return it."""
    return signal.set_wakeup_fd(-1)


def test_a_signal_handler_is_called_immediately():
    """A program's handler is called immediately, and nothing is left behind."""
    assert asyncio.run(with_signal_wakeup(sleeps())) == "the signal"
    assert woken_by() == -1

"""The event loop of a call: it ends although a task ignores cancellation, and a sleeping one handles signals."""

import asyncio
import os
import signal
import socket
import sys
import threading
from threading import Thread

import pytest

from run_specialist import Specialist, run_sync
from run_specialist.api import event_loop
from run_specialist.api.event_loop import with_signal_wakeup


@pytest.fixture
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


@pytest.mark.usefixtures("handler")
@pytest.mark.skipif(os.name == "nt", reason="Windows sends no signal to a thread")
def test_a_signal_handler_is_called_immediately():
    """A program's handler is called immediately, and nothing is left behind."""
    assert asyncio.run(with_signal_wakeup(sleeps())) == "the signal"
    assert signal.set_wakeup_fd(-1) == -1


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such sockets")
def test_the_descriptor_of_a_program_for_its_signals_is_kept():
    """A program that is woken by signals itself, as those with windows are, keeps its descriptor and its handlers."""
    reader, writer = socket.socketpair()
    with reader, writer:
        writer.setblocking(False)
        signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
        try:
            asyncio.run(with_signal_wakeup(asyncio.sleep(0)))
        finally:
            kept = signal.set_wakeup_fd(-1)
        assert kept == writer.fileno()
    assert signal.getsignal(signal.SIGURG) == signal.SIG_DFL


PATIENCE = 90
"""Timeout, after which a hanging test fails [s]."""


async def ignore_cancellation() -> None:
    """Wait forever, and ignore the first cancellation."""
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        await asyncio.Event().wait()


def in_time(function):
    """Return the result of a function, or fail if it does not return in time."""
    got = []
    thread = Thread(target=lambda: got.append(function()), daemon=True)
    thread.start()
    thread.join(PATIENCE)
    assert not thread.is_alive()
    return got[0]


@pytest.fixture
def impatient(monkeypatch):
    """Give tasks no time to clean up."""
    monkeypatch.setattr(event_loop, "PATIENCE", 0)


@pytest.mark.usefixtures("impatient")
def test_a_tool_that_ignores_cancellation_does_not_block_the_outcome(tmp_path):
    """The outcome is returned even if a tool catches its cancellation, which would block `asyncio.run` for ever."""
    at_work = []

    def listen(event):
        if event.event == "started":
            at_work.append(asyncio.create_task(ignore_cancellation()))

    (tmp_path / "owls.md").write_text("Owls eat mice.")
    finder = Specialist(name="finder", description="", prompt="You find.")
    outcome = in_time(lambda: run_sync(finder, "What eats mice?", model="offline", root=tmp_path, listener=listen))
    assert outcome.status == "answered"
    assert not at_work[0].done()

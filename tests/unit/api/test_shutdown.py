"""Shutdown of an event loop: tasks that ignore cancellation are abandoned, and tasks that clean up are awaited."""

import asyncio
from threading import Thread

import pytest

from run_specialist import Specialist, run_sync
from run_specialist.api import event_loop

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

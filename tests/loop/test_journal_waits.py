"""When a run waits for its journal, and how it continues if the journal fails."""

import asyncio
from dataclasses import replace

import pytest

from run_specialist.loop import checkpoint
from run_specialist.loop.run import Run
from run_specialist.record.journal import Checkpointed, Ended
from run_specialist.tools.base import Tool
from tests.journals import Notebook, stored
from tests.loop.journalled_runs import ORIGIN, recorded_run
from tests.loop.stored_replies import ANSWER, looks
from tests.loop_jobs import job
from tests.scripted_provider import ScriptedProvider, says

pytestmark = pytest.mark.anyio


LOST = "this run is not stored: the disk is full"


class Slow(Notebook):
    """A journal that commits only when a run waits for it, and notes after which record each wait happened."""

    def __init__(self):
        super().__init__()
        self.waits = []

    async def committed(self):
        """Keep everything."""
        self.waits.append(len(self.records))
        await asyncio.sleep(0)


async def test_each_request_waits_until_earlier_records_are_stored():
    """The run waits for the journal before each request but the first, and before it returns the outcome."""
    slow, asked_at = Slow(), []

    def reply(say):
        def line(asked):
            asked_at.append(list(slow.waits))
            return say

        return line

    provider = ScriptedProvider([reply(looks(1)), reply(looks(2)), reply(ANSWER)])
    outcome = await Run(job(provider, origin=lambda: ORIGIN), journal=slow).outcome()
    assert outcome.status == "answered"
    assert [len(waits) for waits in asked_at] == [0, 1, 2]
    kinds = [type(record) for record in slow.records]
    for waits in asked_at[1:]:
        # Only the event for the outgoing request is not yet awaited at this point.
        assert kinds[waits[-1] - 1] is Checkpointed
    assert kinds[slow.waits[-1] - 1] is Ended


class Failing(Notebook):
    """A journal that loses every record from a given one on, and reports that once."""

    def __init__(self, after):
        super().__init__()
        self._left = after
        self._told = False

    def write(self, record):
        """Take a record, or lose it."""
        self._left -= 1
        if self._left >= 0:
            super().write(record)

    async def committed(self):
        """Tell that something was lost."""
        if self._left >= 0 or self._told:
            return None
        self._told = True
        return LOST


async def test_a_journal_that_fails_at_any_record_is_one_warning():
    """A journal that fails at any record causes one warning: same answer, same requests, the run is not stored."""
    script, events = [looks(1, 2), looks(3), ANSWER], []
    _, whole, notebook = await recorded_run(script)
    end = next(at for at, record in enumerate(notebook.records) if isinstance(record, Ended))
    same = {"warnings": (), "duration_s": 0, "limits": {}}
    for after in range(end + 1):
        events.clear()
        run = Run(job(ScriptedProvider(script), 9, origin=lambda: ORIGIN), events.append, journal=Failing(after))
        outcome = await run.outcome()
        assert replace(outcome, **same) == replace(whole, **same)
        assert not run.is_kept
        assert [event.text for event in events if event.event == "warning"] == [LOST]
        # When the outcome record itself is lost, it is too late to add a warning to the outcome.
        assert outcome.warnings == ((LOST,) if after < end else ())


async def test_a_hanging_disk_causes_a_warning_and_keeps_the_answer(monkeypatch):
    """If the disk hangs, the run stops waiting after a while, adds a warning and returns its answer."""

    class Hanging(Notebook):
        async def committed(self):
            """Never return."""
            await asyncio.Event().wait()

    monkeypatch.setattr(checkpoint, "COMMIT_TIMEOUT", 0.01)
    run = Run(job(ScriptedProvider([looks(1), looks(2), ANSWER]), origin=lambda: ORIGIN), journal=Hanging())
    outcome = await run.outcome()
    assert outcome.answer == "It is known."
    assert outcome.warnings == (checkpoint.STORE_SLOW,)
    assert not run.is_kept


async def test_a_cancellation_propagates_after_the_outcome_is_recorded():
    """A cancellation from outside propagates only after the outcome has been recorded."""
    reached = asyncio.Event()

    async def slow(query: str = "") -> str:
        reached.set()
        await asyncio.Event().wait()
        return ""

    notebook = Slow()
    run = Run(
        job(ScriptedProvider([looks(1)]), tools=[Tool("look", "Look.", slow)], origin=lambda: ORIGIN), journal=notebook
    )
    task = asyncio.create_task(run.outcome())
    await reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert stored(notebook.records).status == "aborted"
    assert isinstance(notebook.records[notebook.waits[-1] - 1], Ended)


class Waiting(Notebook):
    """A journal that takes time to commit."""

    def __init__(self) -> None:
        super().__init__()
        self.waited_for = asyncio.Event()
        self.go = asyncio.Event()

    async def committed(self) -> str | None:
        """Wait for the test."""
        self.waited_for.set()
        await self.go.wait()
        return None


async def test_s3_6_a_second_cancellation_does_not_lose_the_outcome():
    """If the task is cancelled twice while the outcome is being stored, it is still stored before the cancellation."""
    journal, events = Waiting(), []
    running = asyncio.ensure_future(Run(job(ScriptedProvider([says("x")])), events.append, journal=journal).outcome())
    await journal.waited_for.wait()
    for _ in range(2):
        running.cancel()
        await asyncio.sleep(0)
    journal.go.set()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert [record.outcome.answer for record in journal.of(Ended)] == ["x"]
    assert events[-1].outcome.answer == "x"

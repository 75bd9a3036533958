"""Runs whose store is slow, unavailable, lost or taken over by another process."""

import asyncio

import pytest

from run_specialist.api.runner import Runner
from run_specialist.budget import Kind
from run_specialist.errors import UsageError
from run_specialist.loop import checkpoint
from run_specialist.loop.evidence import NOTHING_READ
from run_specialist.loop.run import Run
from run_specialist.record.journal import Checkpointed, Ended, TakenOver
from run_specialist.specialist.fields import Specialist
from tests.journals import Notebook
from tests.loop.stored_replies import ANSWER, looks
from tests.loop_jobs import Clock, job
from tests.scripted_provider import ScriptedProvider

pytestmark = pytest.mark.anyio
LOST = "this run is not stored from turn 2 on: the disk is full"
AWAY = "connection refused"


class Losing(Notebook):
    """A journal that reports at a given wait, counted from 1, that it no longer stores anything."""

    def __init__(self, at, why):
        super().__init__()
        self._left = at
        self._why = why

    async def committed(self):
        """Fail once."""
        self._left -= 1
        if self._left:
            return None
        if isinstance(self._why, Exception):
            raise self._why
        return self._why


class Absent(Notebook):
    """A journal that is unavailable from the second turn until the test restores it."""

    def __init__(self):
        super().__init__()
        self.back = asyncio.Event()
        self.waits = asyncio.Semaphore(0)

    async def committed(self):
        """Wait until it is back."""
        if sum(isinstance(record, Checkpointed) for record in self.records) > 1 and not self.back.is_set():
            self.waits.release()
            self.outage = AWAY
            await self.back.wait()
        self.outage = None


async def ended(script, journal, on_lost="go_on", **how):
    """Run a script; return the outcome, and how many requests went out."""
    provider = ScriptedProvider(script)
    clock = how.pop("clock", None)
    run = Run(job(provider, **how), journal=journal, on_lost=on_lost, **({"clock": clock} if clock else {}))
    return await run.outcome(), len(provider.requests)


SCRIPT = [looks(1), looks(2), ANSWER]


@pytest.mark.parametrize("at", [1, 2, 3])
async def test_a_run_that_needs_its_store_ends_before_its_next_request(at):
    """A run that requires its store aborts before its next request, with the results so far and exit code 4."""
    outcome, asked = await ended(SCRIPT, Losing(at, LOST), "abort")
    assert (outcome.status, outcome.exit_code, asked) == ("aborted", 4, at - 1)
    assert outcome.error == f"{LOST}; the run was stopped before its next request"
    assert outcome.error_kind == "store_lost"
    assert outcome.warnings == (outcome.error,)
    assert ("note on '1'" in outcome.answer) is (at > 1)


async def test_a_received_answer_is_returned_even_if_the_store_is_lost():
    """A run that requires its store still returns an answer that has already been received."""
    outcome, _ = await ended([ANSWER], Losing(2, LOST), "abort")
    assert (outcome.status, outcome.exit_code, outcome.warnings) == ("answered", 0, (LOST, NOTHING_READ))


@pytest.mark.parametrize("on_lost", ["go_on", "abort"])
async def test_a_run_taken_over_by_another_process_sends_no_more_requests(on_lost):
    """A run that another process has taken over sends no more requests, because both would pay for them."""
    why = "this run is not stored from turn 2 on: another process goes on with it"
    outcome, asked = await ended(SCRIPT, Losing(2 if on_lost == "abort" else 1, TakenOver(why)), on_lost)
    assert (outcome.status, outcome.exit_code, asked) == ("aborted", 4, 1)
    assert outcome.error == f"{why}; the run was stopped before its next request"
    assert outcome.error_kind == "store_lost"


async def test_a_takeover_detected_at_the_end_keeps_the_answer():
    """If the takeover is detected only when the outcome is stored, the answer is still returned."""
    outcome, _ = await ended([ANSWER], Losing(1, TakenOver("taken")))
    assert (outcome.status, outcome.warnings) == ("answered", ("taken", NOTHING_READ))


async def test_an_unavailable_store_is_retried_longer_than_a_slow_one(monkeypatch):
    """An unavailable store is retried for longer than a slow one; listeners get one event, and no record is lost."""
    monkeypatch.setattr(checkpoint, "COMMIT_TIMEOUT", 0.01)
    journal = Absent()
    events = []
    run = Run(job(ScriptedProvider(SCRIPT)), events.append, journal=journal)
    running = asyncio.ensure_future(run.outcome())
    for _ in range(5):
        await journal.waits.acquire()
    assert not running.done()
    journal.back.set()
    outcome = await running
    assert (outcome.status, run.is_kept) == ("answered", True)
    assert outcome.warnings == (checkpoint.STORE_UNREACHABLE.format(AWAY),)


@pytest.mark.parametrize(("on_lost", "status", "asked"), [("go_on", "landed", 2), ("abort", "aborted", 1)])
async def test_the_time_limit_applies_while_waiting_for_the_store(on_lost, status, asked, monkeypatch):
    """The time limit applies while waiting for the store: the run lands, or aborts if it requires its store."""
    clock = Clock()
    monkeypatch.setattr(checkpoint, "POLL_INTERVAL", 0.01)

    def late(_asked):
        clock.now += 99.99
        return looks(1)

    provider = ScriptedProvider([late, ANSWER])

    class Ticking(Absent):
        async def committed(self):
            """Let the time pass that is left."""
            clock.now += 0.01
            return await super().committed()

    journal = Ticking()
    run = Run(job(provider, limits={Kind.TIME: 100.0}), clock=clock, journal=journal, on_lost=on_lost)
    outcome = await run.outcome()
    assert (outcome.status, len(provider.requests)) == (status, asked)
    told = checkpoint.STORE_NOT_BACK.format(AWAY) if on_lost == "go_on" else checkpoint.RUN_STOPPED.format(AWAY)
    assert told in outcome.warnings
    assert [record.outcome.status for record in journal.of(Ended)] == [status]


async def test_a_run_that_requires_its_store_aborts_if_the_disk_hangs(monkeypatch):
    """A run that requires its store ends if the disk hangs without reporting an error."""

    class Hanging(Notebook):
        async def committed(self):
            """Never return."""
            await asyncio.Event().wait()

    monkeypatch.setattr(checkpoint, "REQUIRED_STORE_TIMEOUT", 0.01)
    monkeypatch.setattr(checkpoint, "COMMIT_TIMEOUT", 0.01)
    outcome, asked = await ended(SCRIPT, Hanging(), "abort")
    assert (outcome.status, asked) == ("aborted", 0)
    assert outcome.error == checkpoint.RUN_STOPPED.format(checkpoint.STORE_SILENT)


async def test_stopping_a_run_does_not_wait_for_an_unavailable_store(monkeypatch):
    """Stopping a run waits no longer for an unavailable store than for a slow one."""
    monkeypatch.setattr(checkpoint, "COMMIT_TIMEOUT", 0.01)
    journal = Absent()
    run = Run(job(ScriptedProvider([looks(1)])), journal=journal)
    running = asyncio.ensure_future(run.outcome())
    await journal.waits.acquire()
    run.abort()
    outcome = await running
    assert (outcome.status, outcome.exit_code) == ("aborted", 130)
    assert not journal.back.is_set()


async def test_a_run_that_requires_its_store_does_not_start_without_it(tmp_path, monkeypatch):
    """A run that requires its store does not start if the default one cannot be opened; otherwise it only warns."""
    (tmp_path / "file").write_text("no folder")
    monkeypatch.delenv("SPECIALIST_STORE")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "file"))
    monkeypatch.setenv("HOME", str(tmp_path / "file"))
    provider = ScriptedProvider([ANSWER])
    async with Runner(root=tmp_path, provider=provider, on_lost="abort") as runner:
        with pytest.raises(UsageError, match=r"runs\.db"):
            await runner.run(Specialist(name="looker", description="", prompt="Look.", tools=()), "Why?")
    assert not provider.requests

"""The records that a run writes to its journal, and runs whose store is slow, unavailable, lost or taken over."""

import asyncio
from dataclasses import replace

import pytest

from run_specialist.api.runner import Runner
from run_specialist.budget import Kind
from run_specialist.errors import ContextExceeded, ProviderError, UsageError
from run_specialist.loop import checkpoint
from run_specialist.loop.evidence import NOTHING_READ
from run_specialist.loop.run import Run
from run_specialist.providers.base import Delta
from run_specialist.record.journal import Checkpointed, Ended, Opened, TakenOver
from run_specialist.record.messages import Stop
from run_specialist.specialist.answer_schema import AnswerSchema
from run_specialist.specialist.fields import Specialist
from run_specialist.tools.base import Tool
from tests.journals import Notebook, stored
from tests.loop.replies import ANSWER, beside, looks
from tests.loop_jobs import LOOK, Clock, job, outcome_of, results
from tests.scripted_provider import ScriptedProvider, calls, says


async def recorded_run(script, limit=9, **settings):
    """Run a script, and return the run, its outcome and its journal."""
    notebook, provider = Notebook(), ScriptedProvider(script)
    run = Run(job(provider, limit, **settings), journal=notebook)
    return run, await run.outcome(), notebook


EXITS = {
    "limit": ([looks(1), looks(2, 2), ANSWER], "landed"),
    "answer beside calls": ([beside(), ANSWER], "landed"),
    "error": ([looks(1), ProviderError("down")], "failed"),
    "context": ([looks(1), ContextExceeded("full")], "partial"),
    "bug": ([looks(1), RuntimeError("a bug")], "failed"),
    "cut": ([looks(1), says("It is", Stop.TRUNCATED), says("It", Stop.TRUNCATED)], "partial"),
    "cut calls": ([replace(looks(1), stop=Stop.TRUNCATED, more_room_helps=False)], "failed"),
    "refusal": ([looks(1), replace(looks(2), stop=Stop.REFUSED)], "failed"),
    "misfit": ([replace(looks(1), stop=Stop.ANSWERED), replace(looks(2), stop=Stop.ANSWERED)], "failed"),
}


@pytest.mark.parametrize("how", EXITS)
async def test_x_10_on_every_exit_each_stored_call_has_its_result(how):
    """On every exit the stored messages equal those of the run, and every call has a result."""
    script, status = EXITS[how]
    run, outcome, notebook = await recorded_run(script, 2)
    assert outcome.status == status
    kept_run = stored(notebook.records)
    assert kept_run.status == status
    assert kept_run.transcript == run.transcript
    assert kept_run.pending is None
    called = [block["id"] for one in run.transcript for block in one.blocks if block["type"] == "tool_use"]
    results = [block for one in run.transcript for block in one.blocks if block["type"] == "tool_result"]
    assert called == [block["tool_use_id"] for block in results]
    assert {call.call.id for call in kept_run.calls} <= set(called)


async def test_s3_6_a_run_that_is_aborted_in_a_request_is_stored_with_its_results():
    """The stored run has the results of the turns before, and the outcome."""
    notebook = Notebook()
    run = Run(job(ScriptedProvider([looks(1), lambda request: run.abort() or looks(2)])), journal=notebook)
    assert (await run.outcome()).status == "aborted"
    kept_run = stored(notebook.records)
    assert (kept_run.status, kept_run.transcript) == ("aborted", run.transcript)
    assert results(run.transcript[2]) == ["note on '1', part 0"]


@pytest.mark.parametrize("has_begun", [True, False])
async def test_the_first_record_is_written_once(has_begun):
    """A run whose first record is stored already, as that of an item of a batch, does not write it again."""
    notebook = Notebook()
    notebook.has_begun = has_begun
    await Run(job(ScriptedProvider([ANSWER])), journal=notebook).outcome()
    assert sum(isinstance(record, Opened) for record in notebook.records) == (not has_begun)


LOST = "this run is not stored: the disk is full"


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
        run = Run(job(ScriptedProvider(script), 9), events.append, journal=Failing(after))
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
    run = Run(job(ScriptedProvider([looks(1), looks(2), ANSWER])), journal=Hanging())
    outcome = await run.outcome()
    assert outcome.answer == "It is known."
    assert outcome.warnings == (checkpoint.STORE_SLOW,)
    assert not run.is_kept


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


LOST_LOST = "this run is not stored from turn 2 on: the disk is full"
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
    outcome, asked = await ended(SCRIPT, Losing(at, LOST_LOST), "abort")
    assert (outcome.status, outcome.exit_code, asked) == ("aborted", 4, at - 1)
    assert outcome.error == f"{LOST_LOST}; the run was stopped before its next request"
    assert outcome.error_kind == "store_lost"
    assert outcome.warnings == (outcome.error,)
    assert ("note on '1'" in outcome.answer) is (at > 1)


async def test_a_received_answer_is_returned_even_if_the_store_is_lost():
    """A run that requires its store still returns an answer that has already been received."""
    outcome, _ = await ended([ANSWER], Losing(2, LOST_LOST), "abort")
    assert (outcome.status, outcome.exit_code, outcome.warnings) == ("answered", 0, (LOST_LOST, NOTHING_READ))


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


@pytest.mark.exhaustive
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


GATHERED = calls(("respond", {"answer": "What was gathered."}), first_id=5)
HALF = calls(("respond", {"answer": "Half of wh"}), first_id=6, stop=Stop.TRUNCATED)


@pytest.mark.parametrize(
    "then",
    [ProviderError("the API answered 500"), says("", Stop.REFUSED), RuntimeError("a bug"), ContextExceeded("too long")],
    ids=["error", "refused", "bug", "full"],
)
async def test_x_12_an_invalid_answer_is_kept_if_its_correction_fails(then, tmp_path):
    """An answer that does not fit the schema is kept if the request to correct it fails."""
    schema = AnswerSchema.load({"type": "object"}, tmp_path)
    outcome = await outcome_of(job(ScriptedProvider([GATHERED, then]), answer_schema=schema))
    assert outcome.status in {"failed", "partial"}
    assert "What was gathered." in outcome.answer


async def test_x_6_a_cut_answer_is_kept_if_the_retry_fails():
    """A cut answer is kept if the retry with a larger token limit fails."""
    outcome = await outcome_of(job(ScriptedProvider([HALF, ProviderError("gone")])))
    assert (outcome.status, outcome.exit_code) == ("failed", 3)
    assert "Half of wh" in outcome.answer


class EndlessReplyProvider(ScriptedProvider):
    """A provider that streams some text and never ends."""

    def open(self, opening, watch=None):
        """Remember who watches."""
        self.watch = watch
        return super().open(opening, watch)

    async def ask(self, request):
        """Stream the beginning of an answer."""
        for piece in ('{"answer": "Owls ', "eat mice, and th"):
            self.watch(Delta(piece, tool="respond"))
        await asyncio.Event().wait()


async def test_x_14_an_answer_streaming_at_the_time_limit_is_kept():
    """If time runs out during the landing, the partially streamed answer becomes the salvage."""
    made = job(EndlessReplyProvider([]), limits={Kind.TIME: 0.2})
    outcome = await Run(made, watch=lambda delta: None).outcome()
    assert outcome.status == "partial"
    assert "Owls eat mice, and th" in outcome.answer


async def test_s3_6_an_answer_streaming_at_an_abort_is_kept():
    """If the run is aborted during an answer (Ctrl-C), the partially streamed text is kept."""
    run = Run(job(EndlessReplyProvider([])), watch=lambda delta: run.abort() if "and th" in delta.text else None)
    outcome = await run.outcome()
    assert outcome.status == "aborted"
    assert "Owls eat mice, and th" in outcome.answer


async def test_x_8_a_full_context_shortens_the_longest_new_results():
    """If the context is full, the longest new results are shortened, short ones are kept, and the run lands."""
    tool = Tool("look", "Look.", lambda query: query * 3_000)
    turn = calls(("look", {"query": "a"}), ("look", {"query": ""}))
    provider = ScriptedProvider([turn, ContextExceeded("too long"), GATHERED])
    outcome = await outcome_of(job(provider, tools=[tool]))
    assert results(provider.requests[2].messages[-1]) == [f"{'a' * 2_000}\n[truncated]", "(no output)"]
    assert (outcome.status, outcome.landing.reason, LOOK.name) == ("landed", "tokens", "look")

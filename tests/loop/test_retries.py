"""Requests that are sent again while the patience lasts, and ids of which each names one run that is paid for once."""

import asyncio
import re
from dataclasses import replace
from itertools import product

import pytest

from run_specialist.api.runner import Runner
from run_specialist.budget import Kind
from run_specialist.errors import ProviderError, StoreUnusable, Unavailable, UsageError
from run_specialist.loop.retries import FIRST_WAIT, LONGEST_WAIT, Retries
from run_specialist.loop.run import EndedRun, Run
from run_specialist.mcp_server.runs import ProgressReporter
from run_specialist.record.events import ChildTold, Retrying, Started, Summarized, Waiting
from run_specialist.record.outcome import Exit
from run_specialist.spawning.resuming import begun_with
from run_specialist.store.ledger import Ledger
from run_specialist.store.writer import Writer
from tests.loop.replies import ANSWER, THREE, answers, asks, looks, looks_for
from tests.loop_jobs import LOOK, Clock, job, outcome_of
from tests.scripted_provider import ScriptedProvider, calls, says
from tests.scripted_specialists import ScriptedSpecialists, write
from tests.stored_runs import ID, LOOKER, StoredRunHarness, taken

BUSY = Unavailable("the API answered 529: busy", "try again later", status=529)
FIRST_LOOK = looks_for("a")


def waits_in(events):
    """Return the waits among events."""
    return [event for event in events if isinstance(event, Retrying)]


async def retried(*script, **settings):
    """Run a job against a script; return its outcome and its waits."""
    events = []
    return await outcome_of(job(ScriptedProvider(script), **settings), events), waits_in(events)


async def test_w1_the_waits_grow_until_the_patience_is_over():
    """The waits double up to a maximum; the last attempt is made when the patience ends, and the error tells it all."""
    events = []
    outcome = await Run(job(ScriptedProvider([BUSY] * 40), patience=60), events.append).outcome()
    waits = waits_in(events)
    seconds = [wait.seconds for wait in waits]
    assert sum(seconds) == pytest.approx(60, abs=0.01)
    assert all(at <= min(FIRST_WAIT * 2**number, LONGEST_WAIT) for number, at in enumerate(seconds))
    assert seconds[:5] == sorted(seconds[:5])
    assert (outcome.status, outcome.exit_code) == ("failed", Exit.PROVIDER)
    assert outcome.error == f"the API answered 529: busy; try again later (retried {len(waits)} times in 60 s)"


async def test_w3_a_requested_wait_replaces_the_own_one():
    """A wait of a second or more is taken as it is, a shorter one only if it is longer than the own one."""
    script = [Unavailable("busy", status=429, wait=wait) for wait in (3, 1, 0.9, 1e-9)]
    _, waits = await retried(*script, says("mice"))
    assert [wait.seconds for wait in waits[:2]] == [3, 1]
    assert 1.5 <= waits[2].seconds <= 2
    assert 3 <= waits[3].seconds <= 4


@pytest.mark.parametrize(
    ("wait", "patience", "said"),
    [
        (121, 120, "try again in 121 seconds, as the API requests, longer than patience allows (120 seconds)"),
        (float("inf"), None, "try again in inf seconds, as the API requests, longer than patience allows"),
    ],
)
async def test_w3_a_wait_beyond_the_patience_fails_at_once(wait, patience, said):
    """Nothing is waited for in vain: the run fails before the first wait, and says how long it would take."""
    outcome, waits = await retried(FIRST_LOOK, Unavailable("busy", status=429, wait=wait), patience=patience)
    assert outcome.error == f"busy; {said}"
    assert (waits, outcome.status, outcome.exit_code) == ([], "failed", Exit.PROVIDER)
    assert "note on 'a'" in outcome.answer


async def test_w3_a_wait_beyond_the_time_limit_fails_at_once():
    """Of patience and time limit the shorter one counts, and is named."""
    outcome, waits = await retried(Unavailable("busy", status=429, wait=70), limits={Kind.TIME: 60})
    assert re.search(r"longer than the time limit allows \([0-9]+ seconds\)$", outcome.error)
    assert not waits


async def forever(seconds):
    """Wait without an end."""
    await asyncio.Event().wait()


@pytest.mark.parametrize("how", ["abort", "cancel"])
async def test_w5_an_abort_or_a_cancellation_ends_a_wait(monkeypatch, how):
    """A wait of an hour ends as soon as the run is aborted or cancelled, and keeps what was gathered."""
    monkeypatch.setattr(Retries, "sleep", staticmethod(forever))
    provider, is_waiting = ScriptedProvider([FIRST_LOOK, BUSY]), asyncio.Event()
    run = Run(job(provider), lambda event: is_waiting.set() if isinstance(event, Retrying) else None)
    task = asyncio.create_task(run.outcome())
    await is_waiting.wait()
    if how == "abort":
        run.abort()
        outcome = await task
    else:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        outcome = run.ended
    assert (outcome.status, outcome.exit_code) == ("aborted", Exit.INTERRUPTED)
    assert "note on 'a'" in outcome.answer


async def test_w5_the_time_limit_ends_a_wait_and_the_run_lands(monkeypatch):
    """When the working time is over in the middle of a wait, the landing asks for the answer."""
    clock, events = Clock(), []

    async def sleep(seconds):
        clock.now += 0.2
        await forever(seconds)

    monkeypatch.setattr(Retries, "sleep", staticmethod(sleep))
    provider = ScriptedProvider([BUSY, calls(("respond", {"answer": "mice"}), first_id=2)])
    outcome = await Run(job(provider, limits={Kind.TIME: 0.2}), events.append, clock=clock).outcome()
    assert (outcome.status, outcome.answer, outcome.landing.reason) == ("landed", "mice", "time")
    assert len(waits_in(events)) == 1
    assert isinstance(events[0], Started)


async def test_w1_a_run_that_gave_up_is_resumed_as_if_nothing_had_happened(desk):
    """The retries leave no trace in the transcript, and the resumed run sends the same messages."""
    first = await desk.ask(looks(1), *[BUSY] * 2, patience=0.3)
    assert first.outcome.status == "failed"
    again = await desk.go_on(BUSY, ANSWER, patience=60)
    assert again.outcome.status == "answered"
    assert again.requests[0].messages == first.requests[-1].messages
    assert [event.attempt for event in waits_in(again.events)] == [1]
    assert again.outcome.limits["turns"].used == 2


async def test_w7_the_patience_of_a_resumed_run_is_the_stored_one_unless_given(desk):
    """Without a new value the run keeps its patience; one from before there was any has the default."""
    first = await desk.ask(looks(1), BUSY, patience=0)
    assert not waits_in(first.events)
    again = await desk.go_on(BUSY)
    assert not waits_in(again.events)
    run = desk.load()
    settings = {key: value for key, value in run.frozen["settings"].items() if key != "patience"}
    old = replace(run, frozen={**run.frozen, "settings": settings})
    assert begun_with(old)[1].patience == 120


async def test_w2_a_child_retries_by_itself(tmp_path):
    """The wait of a child reaches the listener of its parent, and both answer."""
    write(tmp_path, "lead", "agents: [second]")
    write(tmp_path, "second", "patience: 30")
    provider = ScriptedSpecialists(
        lead=[[asks("second"), answers("Mice.")]], second=[[BUSY, calls(("respond", {"answer": "Voles."}))]]
    )
    events = []
    async with Runner(root=tmp_path, dir=tmp_path / "specialists", provider=provider, store="none") as runner:
        outcome = await runner.run("lead", "What?", listener=events.append)
    told = waits_in(event.told for event in events if isinstance(event, ChildTold))
    assert (outcome.answer, [event.status for event in told], waits_in(events)) == ("Mice.", [529], [])


async def test_w1_a_request_for_a_summary_is_retried(tmp_path):
    """Notes that an overload delayed are part of the summary."""
    long = LOOKER.model_copy(update={"summarize_at": 18})
    script = [looks_for("a" * 900), looks_for("", first_id=2), BUSY, says("notes"), says("mice")]
    events, provider = [], ScriptedProvider(script)
    async with Runner(root=tmp_path, provider=provider, tools=[LOOK], store="none") as runner:
        outcome = await runner.run(long, "What?", listener=events.append)
    (summary,) = [event for event in events if isinstance(event, Summarized)]
    assert (len(waits_in(events)), "notes" in summary.summary, outcome.answer) == (1, True, "mice")


def test_w2_the_progress_of_mcp_tells_each_wait():
    """A client hears of a wait, of a child's under its name, and the figure of the progress still grows."""
    progress = ProgressReporter()
    wait = Retrying(429, 2.96, 3, "the API answered 429: busy")
    own = progress.take(wait)
    child = progress.take(ChildTold("run-2", "second", wait))
    assert own.message == "the API answered 429: busy · retry 3 in 3.0 s"
    assert child.message == f"second: {own.message}"
    assert child.progress > own.progress


def test_r7_a_wait_is_a_progress_notification():
    """The message has the time if it is known, and the reason; the end of the wait needs none."""
    progress = ProgressReporter()
    assert progress.take(Waiting("started", 41.6, "not now")).message == "waiting 42 s · not now"
    assert progress.take(Waiting("started", None, "not now")).message == "waiting · not now"
    assert progress.take(Waiting("finished", 2.0, "not now")) is None
    child = ChildTold("run-2", "second", Waiting("started", None, "not now"))
    assert progress.take(child).message == "second: waiting · not now"


@pytest.fixture
def office(tmp_path, monkeypatch):
    """Provide a store and its processes, which work in an empty project."""
    monkeypatch.chdir(tmp_path)
    return StoredRunHarness(tmp_path)


DIFFERENCES = [
    ({"question": "What else?"}, "question was What is known? and is What else?"),
    ({"turns_limit": 7}, "turns_limit was none and is 7"),
    ({"model": "opus"}, "model was none and is opus"),
    ({"output_schema": {"type": "string"}}, "output_schema was none and is {'type': 'string'}"),
    ({"countdown": "none"}, "countdown was "),
    ({"specialist": LOOKER.model_copy(update={"name": "seeker"})}, "specialist was looker and is seeker; name was "),
    ({"specialist": LOOKER.model_copy(update={"prompt": "You guess."})}, "prompt was You look things up. and is You "),
]


async def test_another_run_is_refused_under_the_same_id(office):
    """Another question, specialist or setting is refused, whether the run has ended or broken off."""
    await office.take(looks(1), ProviderError("gone"))
    for (how, words), retry in product(DIFFERENCES, ((), ("failed",))):
        with pytest.raises(UsageError) as refused:
            await office.take(retry=retry, **how)
        assert str(refused.value).startswith(f"{ID} is stored as another run: {words}")
        assert str(refused.value).endswith("; use another id")


async def test_with_force_a_run_keeps_its_settings(office):
    """With force other settings are ignored: the run keeps those that it began with; another question is refused."""
    await office.take(looks(1), ProviderError("gone"), tool_calls_limit=5)
    again = await office.take(ANSWER, tool_calls_limit=9, force=True, retry="failed")
    assert (again.status, again.tool_calls.limit) == ("answered", 5)
    assert await office.take(turns_limit=9, force=True) == again
    with pytest.raises(UsageError, match="question was"):
        await office.take(question="Why?", force=True)


@pytest.mark.exhaustive
async def test_a_raised_limit_does_not_make_another_run(office):
    """A run whose limits were raised by resuming it is still recognized by those that it began with."""
    first = await office.take(*THREE, ANSWER, tool_calls_limit=3)
    for limit in (6, 9):
        async with office.process(looks(limit), *[looks(n) for n in range(limit + 1, limit + 3)], ANSWER) as runner:
            again = await (await runner.resume(ID, tool_calls_limit=limit)).outcome()
        assert again.tool_calls.limit == limit
        assert await office.take(tool_calls_limit=3) == again != first
    with pytest.raises(UsageError, match="tool_calls_limit was 3 and is 9"):
        await office.take(tool_calls_limit=9)


@pytest.mark.exhaustive
async def test_another_file_content_is_named_by_both_digests(office, tmp_path):
    """A changed file is refused with both digests; with force the run continues with its first instructions."""
    path = write(tmp_path, "finder", "tool_calls_limit: 5")
    how = {"specialist": "finder"}
    await office.take(looks(1), ProviderError("gone"), **how)
    write(tmp_path, "finder", "tool_calls_limit: 6")
    with pytest.raises(UsageError, match=rf"{path} has another content, its digest was \w{{12}} and is \w{{12}}; use"):
        await office.take(retry="failed", **how)
    again = await office.take(ANSWER, retry="failed", force=True, **how)
    assert (again.status, again.tool_calls.limit) == ("answered", 5)


async def test_without_a_store_an_id_is_only_a_name(office):
    """Without a store the id is in the outcome, and the run can be begun again."""
    async with office.process(ANSWER, ANSWER, store="none") as runner:
        outcomes = [await (await taken(runner)).outcome() for _ in range(2)]
    assert [outcome.run_id for outcome in outcomes] == [ID, ID]


@pytest.fixture
def breaks(monkeypatch):
    """Let the store refuse to begin runs."""

    def refuse(self, rows):
        raise OSError("the disk is on fire")

    monkeypatch.setattr(Ledger, "_begin", refuse)


@pytest.mark.usefixtures("breaks")
async def test_a_store_lost_before_the_first_request_costs_a_warning(office, monkeypatch):
    """If the store is lost before the first request, the run continues with a warning; a needed store prevents it."""

    def fail(self, batch):
        raise OSError("the disk is on fire")

    monkeypatch.setattr(Ledger, "_write", fail)
    outcome = await office.take(ANSWER)
    assert (outcome.status, outcome.run_id) == ("answered", ID)
    (warning,) = [text for text in outcome.warnings if "not stored" in text]
    assert warning.endswith("the disk is on fire')")
    async with office.process(on_lost="abort") as runner:
        with pytest.raises(StoreUnusable, match="the disk is on fire"):
            await taken(runner)


async def test_a_store_that_does_not_open_is_refused_if_it_was_named(office, tmp_path):
    """A named store that does not open is an error before any request; the default store is a warning."""
    (tmp_path / "file").write_text("no folder")
    async with office.process(store=f"sqlite:///{tmp_path}/file/runs.db") as runner:
        with pytest.raises(StoreUnusable, match=r"file/runs\.db"):
            await taken(runner)


async def test_a_store_that_cannot_be_queried_pays_nothing_twice(office, monkeypatch):
    """If an open store cannot say whether the run has ended, nothing is sent."""
    await office.take(ANSWER)

    def fail(self, run_id):
        raise OSError("the disk is on fire")

    monkeypatch.setattr(Ledger, "_known", fail)
    with pytest.raises(StoreUnusable, match="the disk is on fire"):
        await office.take()


async def test_a_run_that_another_process_ends_meanwhile_is_returned(office, monkeypatch):
    """If another process begins and ends the run between the look and the commit, its outcome is returned."""
    first = []
    whole = Writer.begin

    def overtaken(self, opened):
        if not first:
            first.append(True)
            first.append(asyncio.run(office.take(ANSWER)))
        return whole(self, opened)

    monkeypatch.setattr(Writer, "begin", overtaken)
    async with office.process() as runner:
        run = await taken(runner)
    assert isinstance(run, EndedRun)
    assert run.ended == first[1]


async def test_a_run_that_another_process_resumes_first_is_not_resumed_twice(office, monkeypatch):
    """If another process resumes the run between the look and the claim, its outcome is returned, or AtWork raised."""
    await office.take(looks(1), ProviderError("gone"))
    whole, overtaken = Writer.claim, []

    def claim(self, run):
        if not overtaken:
            overtaken.append(True)
            overtaken.append(asyncio.run(office.take(ANSWER, retry="failed")))
        return whole(self, run)

    monkeypatch.setattr(Writer, "claim", claim)
    async with office.process() as runner:
        run = await taken(runner, retry="failed")
    assert isinstance(run, EndedRun)
    assert run.ended == overtaken[1]

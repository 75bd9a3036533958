"""Retries of stored and resumed runs, of children, of summaries, and in the progress of MCP."""

from dataclasses import replace

import pytest

from run_specialist.api.runner import Runner
from run_specialist.errors import Unavailable
from run_specialist.mcp_server.runs import ProgressReporter
from run_specialist.record.events import ChildTold, Retrying, Summarized
from run_specialist.spawning.resuming import begun_with
from tests.loop.nested_replies import answers, asks
from tests.loop.stored_replies import ANSWER, looks
from tests.loop_jobs import LOOK
from tests.scripted_provider import ScriptedProvider, calls, says
from tests.scripted_specialists import ScriptedSpecialists, write
from tests.stored_runs import LOOKER

pytestmark = pytest.mark.anyio
BUSY = Unavailable("the API answered 529: busy", "try again later", status=529)


def waits_in(events):
    """Return the waits among events."""
    return [event for event in events if isinstance(event, Retrying)]


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
    script = [calls(("look", {"query": "a" * 900})), calls(("look", {}), first_id=2), BUSY, says("notes"), says("mice")]
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

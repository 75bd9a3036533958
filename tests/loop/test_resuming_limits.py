"""Runs resumed with larger limits, after failures, and after pauses."""

from dataclasses import replace

import pytest

from run_specialist import prompts
from run_specialist.errors import ProviderError
from run_specialist.providers.scripted import calls, says
from run_specialist.record.messages import Usage
from run_specialist.record.outcome import Exit
from run_specialist.tools.base import Tool
from tests.journals import stored
from tests.loop.stored_replies import ANSWER, REFRESHED, THREE, everything, looks
from tests.loop_jobs import Clock, results
from tests.stored_runs import LOOKER

pytestmark = pytest.mark.anyio


async def test_x_12_a_run_failed_at_the_landing_can_be_resumed(desk):
    """A run that failed with exit code 3 at the landing can be resumed: it lands and answers."""
    first = await desk.ask(*THREE, ProviderError("the API is down"), tool_calls_limit=3)
    assert (first.outcome.status, first.outcome.exit_code) == ("failed", Exit.PROVIDER)
    assert "note on '3', part 0" in first.outcome.answer
    assert len(first.outcome.evidence) == 3
    assert first.run.is_kept
    again = await desk.go_on(ANSWER)
    assert (again.outcome.status, again.outcome.answer) == ("landed", "It is known.")
    assert again.requests[0].choice == "respond"
    # The model never saw the request that failed, so there is nothing new to report to it.
    assert everything(again.requests[0].messages) == everything(first.requests[-1].messages)
    assert again.outcome.tool_calls.used == 3


async def test_x_12_a_run_resumed_with_more_calls_continues(desk):
    """Resumed with more calls after an API failure, the run continues; the note joins the unsent results."""
    await desk.ask(*THREE, ProviderError("the API is down"), tool_calls_limit=3)
    again = await desk.go_on(looks(4), ANSWER, tool_calls_limit=6)
    last = results(again.requests[0].messages[-1])[-1]
    assert last == f"note on '3', part 0\n0 tool calls remaining\n{REFRESHED}"
    assert again.outcome.status == "answered"


async def test_the_landing_instruction_follows_the_resume_note(desk):
    """If the new total is already spent, the landing instruction follows the resume note as the last line."""
    await desk.ask(*THREE, ProviderError("the API is down"), tool_calls_limit=3, landing="order")
    again = await desk.go_on(ANSWER, tool_calls_limit=3, question="And now?")
    last = results(again.requests[0].messages[-1])[-1].splitlines()
    assert last[-2:] == ["The user now asks: And now?", prompts.landing_instruction("order", None)]
    assert again.outcome.status == "landed"


async def test_a_resume_emits_started_resumed_then_request(desk):
    """Events come in the order started, resumed, request, and `finished` is the last."""
    await desk.ask(*THREE, ANSWER, tool_calls_limit=3)
    again = await desk.go_on(ANSWER, tool_calls_limit=6)
    assert [event.event for event in again.events] == ["started", "resumed", "request", "reply", "finished"]
    assert again.named("started")[0].limits["tool_calls"] == 6
    assert [event.turn for event in again.named("request")] == [5]


async def test_s3_8_time_between_two_segments_does_not_count(desk):
    """Time between segments does not count: after 40 of 60 s and a week, a limit of 100 s leaves 60 s."""
    clock = Clock()

    def look(query: str = "") -> str:
        clock.now += 40
        return "a note"

    desk.tools = [Tool("look", "Look something up.", look)]
    first = await desk.record(looks(1), ProviderError("down"), clock=clock, time_limit=60.0, tool_calls_limit=None)
    past = stored(first.notebook.records)
    assert past.snapshot.used["time"] == 40
    clock.now += 604_800
    second = await desk.record(looks(2), ANSWER, past=past, clock=clock, time_limit=100.0)
    assert "you now have 100 seconds in all, of which 40 are used, so 60 seconds remain" in second.noted
    assert results(second.requests[1].messages[-1]) == ["a note\n20 seconds remaining"]
    assert second.outcome.limits["time"].used == second.outcome.duration_s == 80
    assert second.outcome.status == "answered"


async def test_a_spent_time_limit_lands_and_a_larger_one_does_not(desk):
    """The time limit covers all segments: a spent one lands immediately, a larger one does not."""
    clock = Clock()

    def look(query: str = "") -> str:
        clock.now += 58
        return "a note"

    desk.tools = [Tool("look", "Look something up.", look)]
    first = await desk.record(looks(1), ProviderError("down"), clock=clock, time_limit=60.0)
    past = stored(first.notebook.records)
    landed = await desk.record(ANSWER, past=past, clock=clock)
    assert (landed.outcome.status, landed.outcome.landing.reason) == ("landed", "time")
    answered = await desk.record(ANSWER, past=past, clock=clock, time_limit=600.0)
    assert answered.outcome.status == "answered"


async def test_s2_8_archived_outputs_can_be_read_after_a_resume(desk):
    """Archived outputs can be read in full at the same offsets after a resume, for cut, merged and skipped results."""
    desk.tools = [Tool("look", "Look something up.", lambda query: query * 5_000)]
    desk.specialist = desk.specialist.model_copy(update={"summarize_at": 50_000, "tool_result_limit": 12_000})
    three = [("look", {"query": query}) for query in ("abcd", "efgh", "ijkl")]
    batch = calls(*three)
    batch = replace(batch, content=(batch.content[0], {**batch.content[1], "id": "call_1"}, batch.content[2]))
    large = replace(looks(5), usage=Usage(60_000, 0, 0, 5))
    first = await desk.ask(batch, large, says("notes"), says("some"), tool_calls_limit=2, landing="order")
    assert first.outcome.answer == "some"
    assert "SUMMARIZED executionId:'call_3'" in str(first.run.transcript)
    wanted = [("call_1", 0), ("call_1", 19_990), ("call_1", 20_100), ("call_3", 0)]
    reads = [
        calls(("get_tool_response", {"execution_id": one, "offset": offset}), first_id=number)
        for number, (one, offset) in enumerate(wanted, 20)
    ]
    desk.specialist = LOOKER
    again = await desk.go_on(*reads, ANSWER, tool_calls_limit=9)
    assert again.outcome.tool_calls.failed == 0
    one, seam, two, skipped = [call.whole for call in desk.load().calls[2:]]
    assert one == ("abcd" * 5_000)[:12_000]
    assert seam.startswith("cdabcdabcd\n[another output of the same id follows]\nefgh")
    assert set(two) == set("efgh")
    assert skipped.startswith("Not run: limit reached, look skipped.")

"""Runs resumed with larger limits, after failures, and after pauses."""

from dataclasses import replace

import pytest

from run_specialist.errors import ProviderError
from run_specialist.record.messages import Usage
from run_specialist.tools.base import Tool
from tests.journals import stored
from tests.loop.stored_replies import ANSWER, REFRESHED, THREE, looks
from tests.loop_jobs import Clock, results
from tests.scripted_provider import calls, says
from tests.stored_runs import LOOKER

pytestmark = pytest.mark.anyio


async def test_x_12_a_run_resumed_with_more_calls_continues(desk):
    """Resumed with more calls after an API failure, the run continues; the note joins the unsent results."""
    await desk.ask(*THREE, ProviderError("the API is down"), tool_calls_limit=3)
    again = await desk.go_on(looks(4), ANSWER, tool_calls_limit=6)
    last = results(again.requests[0].messages[-1])[-1]
    assert last == f"note on '3', part 0\n0 tool calls remaining\n{REFRESHED}"
    assert again.outcome.status == "answered"


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

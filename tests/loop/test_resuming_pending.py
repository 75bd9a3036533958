"""A reply received before the process ended is processed on resume: not paid for again, and no call runs twice."""

import asyncio

import pytest

from run_specialist import prompts
from run_specialist.record.journal import Received, Returned
from run_specialist.record.messages import Stop
from run_specialist.record.outcome import Exit
from run_specialist.tools.base import Tool
from tests.loop.stored_replies import ANSWER, looks
from tests.loop_jobs import LOOK, results
from tests.scripted_provider import ScriptedProvider, calls, says

pytestmark = pytest.mark.anyio
LATER = calls(("respond", {"answer": "Later."}), first_id=91)
ENDED = prompts.PROCESS_ENDED.format(tool="look")


async def crash_after(desk, kind, number, *script, **settings):
    """Work on a question in a process that dies right after a record of a kind, and return what it left."""
    going = await desk.record(*script, **settings)
    await desk.keep(going.notebook.until(kind, number))
    run = desk.load()
    assert run.status == "interrupted"
    return run


@pytest.mark.parametrize("reply", [ANSWER, says("It is known.")], ids=["respond", "text"])
async def test_an_answer_received_before_the_crash_is_returned_without_a_request(desk, reply):
    """An answer received before the crash is returned without a request and is paid for once."""
    run = await crash_after(desk, Received, 2, looks(1), reply)
    assert run.pending is not None
    again = await desk.go_on()
    assert (again.outcome.status, again.outcome.answer) == ("answered", "It is known.")
    assert again.requests == []
    assert again.outcome.usage.total_tokens == 30
    assert again.outcome.limits["turns"].used == 2
    assert [event.event for event in again.events] == ["started", "finished"]


async def test_x_10_finished_calls_do_not_run_again_on_resume(desk):
    """Of three parallel calls, the finished one keeps its stored result, and the tool does not run again on resume."""
    run = await crash_after(desk, Returned, 1, looks(1, 3), ANSWER)
    assert len(run.calls) == 1
    begun = []
    desk.tools = [Tool("look", "Look something up.", lambda query="", part=0: begun.append(query))]
    again = await desk.go_on(LATER)
    assert begun == []
    assert results(again.requests[0].messages[-1]) == ["note on '1', part 0", ENDED, ENDED]
    assert [block.get("is_error", False) for block in again.requests[0].messages[-1].content] == [False, True, True]
    assert (again.outcome.tool_calls.used, again.outcome.tool_calls.failed) == (3, 2)
    assert [call.number for call in desk.load().calls] == [1, 2, 3]
    assert [event.phase for event in again.named("tool_call")] == ["failed", "failed"]


async def test_x_10_calls_without_a_record_count_and_do_not_run_again(desk):
    """If only the reply is stored, its calls count but do not run again, and the model gets an error for each."""
    await crash_after(desk, Received, 1, looks(1, 2), ANSWER)
    again = await desk.go_on(LATER)
    assert results(again.requests[0].messages[-1]) == [ENDED, ENDED]
    assert again.outcome.tool_calls.used == 2


async def test_calls_of_a_landing_never_run_in_a_later_segment(desk):
    """Calls made during a landing never run in a later segment, whatever its limit."""
    run = await crash_after(desk, Received, 2, looks(1), looks(2, 2), ANSWER, tool_calls_limit=1)
    assert run.pending.landing
    again = await desk.go_on(looks(4), LATER, tool_calls_limit=5)
    first, last = results(again.requests[0].messages[-1])
    assert first == prompts.NOT_BEGUN.format(tool="look")
    assert last.startswith(first)
    assert "you now have 5 tool calls in all, of which 1" in last
    assert (again.outcome.tool_calls.used, again.outcome.tool_calls.skipped) == (2, 2)
    assert again.outcome.status == "answered"


async def test_x_6_a_cut_answer_received_before_the_crash_is_requested_again(desk):
    """A cut answer received before the crash is paid for, left out of the history and requested again."""
    await crash_after(desk, Received, 1, says("It is", Stop.TRUNCATED), says("It is known."))
    again = await desk.go_on(says("It is known."))
    assert [message.role for message in again.requests[0].messages] == ["user"]
    assert again.requests[0].max_tokens > 16_000
    assert again.outcome.usage.total_tokens == 30


async def test_x_8_a_pause_received_before_the_crash_is_sent_back_unchanged(desk):
    """A pause received before the crash is sent back unchanged, with no message added."""
    pause = says("Wait", Stop.PAUSED)
    await crash_after(desk, Received, 1, pause, ANSWER)
    again = await desk.go_on(LATER)
    assert [message.role for message in again.requests[0].messages] == ["user", "assistant"]
    assert again.requests[0].messages[-1].content == pause.content
    assert again.named("resumed")[0].note == ""


async def test_x_8_a_refusal_received_before_the_crash_ends_the_run(desk):
    """A refusal received before the crash fails with exit code 4; it is not in the history, so a follow-up works."""
    await crash_after(desk, Received, 2, looks(1), says("No.", Stop.REFUSED))
    again = await desk.go_on()
    assert (again.outcome.status, again.outcome.exit_code, again.requests) == ("failed", Exit.NO_ANSWER, [])
    later = await desk.go_on(LATER, question="Politely?")
    assert later.outcome.answer == "Later."
    assert "No." not in str(later.requests[0].messages)


async def test_x_7_an_empty_answer_received_before_the_crash_is_requested_again(desk):
    """An empty answer received before the crash is requested once more, as in an uninterrupted run."""
    await crash_after(desk, Received, 1, says(""), ANSWER)
    again = await desk.go_on(LATER)
    assert again.outcome.answer == "Later."
    assert again.outcome.limits["turns"].used == 2


async def test_x_13_a_call_repeated_after_a_resume_is_answered_from_the_record(desk):
    """A repeated read-only call from an earlier segment is answered from the record, with a hint, and counts."""
    desk.tools = [Tool(LOOK.name, LOOK.description, LOOK.function, repeatable=True)]
    await desk.ask(looks(1), ANSWER)
    begun = []

    def look(query: str = "", part: int = 0) -> str:
        begun.append(query)
        return ""

    desk.tools = [Tool(LOOK.name, LOOK.description, look, repeatable=True)]
    same = calls(("look", {"query": "1"}), first_id=7)
    again = await desk.go_on(same, LATER, question="Sure?")
    assert begun == []
    assert results(again.requests[1].messages[-1]) == [f"note on '1', part 0\n{prompts.SAME_CALL}"]
    assert again.outcome.tool_calls.used == 2


async def test_x_10_s3_6_ctrl_c_during_a_batch_stores_a_result_for_each_call(desk):
    """After Ctrl-C with two of three calls finished, all three have a stored result, which the next segment sends."""
    going = asyncio.Event()

    async def look(query: str = "", part: int = 0) -> str:
        if query == "3":
            going.set()
            await asyncio.Event().wait()
        return f"note on {query}"

    desk.tools = [Tool("look", "Look something up.", look)]
    provider = ScriptedProvider([looks(1, 3)])
    async with desk.process(provider) as runner:
        run = await runner.prepare(desk.specialist, "What is known?")
        task = asyncio.create_task(run.outcome())
        await going.wait()
        run.abort()
        outcome = await task
    stopped = prompts.STOPPED.format(tool="look")
    assert (outcome.status, outcome.exit_code) == ("aborted", Exit.INTERRUPTED)
    assert results(run.transcript[-1]) == ["note on 1", "note on 2", stopped]
    kept = desk.load()
    assert (kept.status, kept.transcript, len(kept.calls)) == ("aborted", run.transcript, 3)
    again = await desk.go_on(LATER)
    assert results(again.requests[0].messages[-1]) == ["note on 1", "note on 2", stopped]
    assert again.outcome.answer == "Later."
    assert (again.outcome.tool_calls.used, again.outcome.usage.total_tokens) == (3, 30)

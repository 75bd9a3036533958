"""A run that is resumed after it broke off: the API failed, Ctrl-C was pressed, or its process died."""

import asyncio

import pytest

from run_specialist import prompts
from run_specialist.loop.run import Run
from run_specialist.record.journal import Returned
from run_specialist.record.outcome import Exit
from run_specialist.spawning.server_tools import search_tool
from run_specialist.tools.base import Tool
from tests.journals import Notebook, keep
from tests.loop_jobs import LOOK
from tests.wire.chat import faults as chat_faults
from tests.wire.resumed_requests import CHAT, LOOKER, MESSAGES, check_continued, look, resume_note
from tests.wire.simulator import faults, replies

pytestmark = pytest.mark.anyio


@pytest.mark.exhaustive(one_in=3)
async def test_x_12_a_run_failed_at_the_landing_can_be_resumed(endpoint):
    """An API failure at the landing gives status failed, exit code 3, salvage and evidence.

    Resuming without changes repeats the failed request.
    """
    down = {MESSAGES: faults.overloaded(), CHAT: chat_faults.error(503, "down")}
    one = endpoint(lambda say: [look(say, "a"), down[MESSAGES if say is replies else CHAT], say.answers("some")])
    run, failed = await one.ask(tool_calls_limit=1)
    assert (failed.status, failed.exit_code, failed.tool_calls.used) == ("failed", Exit.PROVIDER, 1)
    assert "note on 'a', part 0" in failed.answer
    assert [one.verified for one in failed.evidence] == [True]
    assert run.is_kept
    _, outcome = await one.resume()
    assert (outcome.status, outcome.answer, outcome.tool_calls.used) == ("landed", "some", 1)
    assert one.requests[2].raw == one.requests[1].raw
    assert one.requests[2].tool_choice != one.requests[0].tool_choice


@pytest.mark.exhaustive(one_in=3)
async def test_x_12_resuming_after_an_api_failure_repeats_the_request(endpoint):
    """Resuming after an API failure repeats the request byte for byte; a follow-up question goes after the result."""
    one = endpoint(lambda say: [
        look(say, "a"), faults.Raw(503, b"{}"), faults.Raw(503, b"{}"), look(say, "b"), say.answers("some"),
    ])  # fmt: skip
    await one.ask()
    _, failed = await one.resume()
    assert failed.status == "failed"
    assert one.requests[2].raw == one.requests[1].raw
    _, outcome = await one.resume("And where?")
    assert (outcome.status, outcome.tool_calls.used) == ("answered", 2)
    check_continued(one, one.requests[0], one.requests[3])
    assert "And where?" in resume_note(one.requests[3])


@pytest.mark.exhaustive(one_in=3)
async def test_x_10_after_ctrl_c_in_a_batch_every_call_has_its_result(endpoint):
    """After Ctrl-C during a batch, each call has a result, and the API accepts the resumed request.

    Its history is that of the first run.
    """
    reached = asyncio.Event()

    async def slow(query: str = "") -> str:
        if query == "c":
            reached.set()
            await asyncio.Event().wait()
        return f"note on {query}"

    async def stop(run):
        await reached.wait()
        run.abort()

    one = endpoint(lambda say: [look(say, "a", "b", "c"), say.answers("some")])
    one.tools = [Tool("look", "Look.", slow)]
    _, aborted = await one.ask(midway=stop)
    assert (aborted.status, aborted.exit_code) == ("aborted", Exit.INTERRUPTED)
    _, outcome = await one.resume()
    assert outcome.answer == "some"
    check_continued(one, one.requests[0], one.requests[1])
    results = one.requests[1].results
    told = list(results.values()) if one.kind == MESSAGES else results
    assert told == ["note on a", "note on b", prompts.STOPPED.format(tool="look")]


async def test_x_8_a_paused_turn_is_sent_back_unchanged_on_resume(messages_endpoint):
    """If the API fails when a paused turn is sent back, resuming sends it back unchanged."""
    pause = replies.pauses("Let me see.", replies.server_tool_use("web_search", {"query": "owls"}))
    script = [look(replies, "a"), pause, faults.overloaded(), replies.answers("some")]
    one = messages_endpoint(script, tools=[LOOK, search_tool(3, ())])
    await one.ask()
    _, outcome = await one.resume()
    assert outcome.answer == "some"
    assert one.requests[3].raw == one.requests[2].raw
    check_continued(one, one.requests[1], one.requests[3])
    assert one.requests[3].messages[-1]["role"] == "assistant"


@pytest.mark.exhaustive(one_in=3)
async def test_a_killed_run_is_resumed_with_the_same_bytes(endpoint):
    """After a process dies with one of two calls returned, the next request begins with the bytes of the first.

    The lost call's result says that the process ended.
    """
    one = endpoint(lambda say: [look(say, "a", "b"), say.answers("some"), say.answers("more")])
    notebook = Notebook()

    async def begin(runner, watch):
        run = await runner.prepare(LOOKER, "What is known?")
        return Run(run.job, watch=watch, journal=notebook)

    await one.work(begin)
    await keep(f"sqlite:///{one.folder}/runs.db", notebook.until(Returned, 1))
    _, outcome = await one.resume()
    assert (outcome.answer, outcome.tool_calls.used) == ("more", 2)
    check_continued(one, one.requests[0], one.requests[2])
    results = one.requests[2].results
    told = list(results.values()) if one.kind == MESSAGES else results
    ended = prompts.PROCESS_ENDED.format(tool="look")
    assert told in (["note on 'a', part 0", ended], [ended, "note on 'b', part 0"])

"""Aborts and events of runs with presets, over the wire."""

import asyncio
import json

import pytest

from run_specialist.record.outcome import Exit
from run_specialist.tools.base import Tool
from tests.wire.simulator import Gate, faults
from tests.wire.simulator.replies import calls, says, tool_use
from tests.wire.specialists import DONE, looks, note

pytestmark = pytest.mark.anyio


async def test_s3_6_an_abort_before_the_start_sends_nothing(ask):
    """An abort before the start sends no request, and the outcome is aborted."""
    async with ask.prepared([], "preset: budget-notice") as told:
        told.run.abort()
        outcome = await told.run.outcome()
    assert told.api.requests == []
    assert (outcome.status, outcome.exit_code, outcome.answer) == ("aborted", Exit.INTERRUPTED, "")


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize("at", ["request", "tool"])
async def test_s3_6_an_aborted_run_keeps_its_results(ask, at):
    """A run aborted during a reply or a tool call is not a success.

    It keeps its answer, evidence, calls and usage so far.
    """
    gate, working = Gate(), asyncio.Event()

    async def look(query: str) -> str:
        if query == "b" and at == "tool":
            working.set()
            await asyncio.Event().wait()
        return note(query)

    second = says("I look on.", tool_use("look", {"query": "b"}), gate=gate if at == "request" else None)
    tools = [Tool("look", "Looks.", look)]
    async with ask.prepared([looks("a"), second], "preset: budget-notice", tools=tools) as told:
        task = asyncio.create_task(told.run.outcome())
        await (asyncio.to_thread(gate.wait_for_request) if at == "request" else working.wait())
        told.run.abort()
        outcome = await task
    assert (outcome.status, outcome.exit_code) == ("aborted", Exit.INTERRUPTED)
    assert note("a") in outcome.answer
    assert [one.quote for one in outcome.evidence] == [note("a")]
    assert outcome.tool_calls.used == (1 if at == "request" else 2)
    assert outcome.usage.output_tokens > 0
    assert told.events[-1].outcome == outcome


async def test_s3_7_each_call_has_one_end_event(ask):
    """Each call has one end event, whether it ran, failed or was skipped; the last event has the run's usage."""
    script = [calls("look", {"query": "a"}, {"question": "b"}), looks("c", "d"), DONE]
    told = await ask(script, "preset: budget-notice", "tool_calls_limit: 3")
    assert (told.events[0].event, told.events[-1].event) == ("started", "finished")
    assert told.events[0].limits["tool_calls"] == 3
    answered = [call_id for request in told.requests[1:] for call_id in request.results]
    ends = [event for event in told.named("tool_call") if event.phase != "started"]
    assert sorted(event.id for event in ends) == sorted(answered)
    assert sorted(event.phase for event in ends) == ["failed", "finished", "finished", "skipped"]
    usage = json.loads(json.dumps(told.events[-1].as_json()))["outcome"]["usage"]
    for key, used in usage.items():
        assert used == sum(request.usage.get(key, 0) for request in told.requests)
    assert usage["input_tokens"] > 0


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize("fault", [faults.server_error(), faults.unauthorised(), faults.ConnectionReset()])
async def test_s3_7_after_an_error_the_last_event_has_the_usage(ask, fault):
    """After any API error, the last event is the outcome with the usage so far."""
    told = await ask([looks("a"), fault], "preset: budget-notice")
    last = told.events[-1]
    assert (last.event, last.outcome.status, last.outcome.exit_code) == ("finished", "failed", Exit.PROVIDER)
    assert last.outcome.usage.output_tokens == told.requests[0].usage["output_tokens"] > 0
    assert note("a") in last.outcome.answer


async def test_x_12_the_newest_text_of_the_model_is_kept(ask_once):
    """The salvage has the model's newest text beside the findings, even if a later turn had no text."""
    script = [says("It looks like mice.", tool_use("look", {"query": "a"})), looks("b"), faults.server_error()]
    told = await ask_once(script, "preset: budget-notice")
    assert told.outcome.status == "failed"
    assert "It looks like mice." in told.outcome.answer
    assert note("b") in told.outcome.answer

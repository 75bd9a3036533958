"""Bugs found by random kills, each as a deterministic test."""

from dataclasses import replace

import pytest

from run_specialist.loop.job import EarlierCalls, Executed, ResumeState
from run_specialist.prompts import PROCESS_ENDED, SAME_CALL, STOPPED
from run_specialist.record.journal import RunSnapshot
from run_specialist.record.messages import ToolCall
from tests.loop_jobs import LOOK, job, outcome_of, results
from tests.scripted_provider import ScriptedProvider, calls, says


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("earlier", "again"),
    [
        (Executed(ToolCall("call_1", "look", {}), STOPPED.format(tool="look"), is_error=True), "note on '', part 0"),
        (Executed(ToolCall("call_1", "look", {}), PROCESS_ENDED.format(tool="look"), is_error=True), "note on ''"),
        (Executed(ToolCall("call_1", "look", {}), "what it said"), f"what it said\n{SAME_CALL}"),
    ],
    ids=["stopped", "process ended", "returned"],
)
async def test_x_13_an_interrupted_call_runs_when_it_is_repeated(earlier, again):
    """A repeatable call that was interrupted has no recorded result, so it runs if it is made after two resumes."""
    provider = ScriptedProvider([calls(("look", {}), first_id=2), says("Known.")])
    past = ResumeState(
        RunSnapshot({"tool_calls": 1, "turns": 1}, calls=1), earlier=EarlierCalls({1: earlier}, started=1)
    )
    tools = (replace(LOOK, repeatable=True),)
    await outcome_of(job(provider, 9, tools=tools, augmenters=(), resume_state=past))
    assert results(provider.requests[1].messages[-1])[0].startswith(again)

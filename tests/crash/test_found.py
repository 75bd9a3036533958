"""What the kills at random have found, each played by itself."""

from dataclasses import replace

import pytest

from run_specialist.dispatch import Earlier
from run_specialist.executed import Executed
from run_specialist.job import Past
from run_specialist.journal import Standing
from run_specialist.messages import ToolCall
from run_specialist.prompts import PROCESS_ENDED, SAME_CALL, STOPPED
from run_specialist.providers.scripted import ScriptedProvider, calls, says
from tests.jobs import LOOK, job, outcome_of, results


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
async def test_x_13_a_call_that_never_returned_is_run_when_it_is_made_again(earlier, again):
    """Twice resumed, a repeatable call that was under way when the run broke off is no record to answer from."""
    provider = ScriptedProvider([calls(("look", {}), first_id=2), says("Known.")])
    past = Past(Standing({"tool_calls": 1, "turns": 1}, calls=1), earlier=Earlier({1: earlier}, started=1))
    tools = (replace(LOOK, repeatable=True),)
    await outcome_of(job(provider, 9, tools=tools, augmenters=(), past=past))
    assert results(provider.asked[1].messages[-1])[0].startswith(again)

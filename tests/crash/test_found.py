"""Bugs found by random kills, each as a deterministic test."""

from dataclasses import replace

import pytest

from run_specialist.loop.job import EarlierCalls, Executed, ResumeState
from run_specialist.loop.run import Run
from run_specialist.prompts import PROCESS_ENDED, SAME_CALL, STOPPED
from run_specialist.providers.scripted import ScriptedProvider, calls, says
from run_specialist.record.journal import Checkpointed, Ended, RunSnapshot
from run_specialist.record.messages import ToolCall
from run_specialist.store.rows import rows_of
from tests.journals import Notebook
from tests.loop_jobs import LOOK, job, outcome_of, results


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


@pytest.mark.anyio
@pytest.mark.parametrize("last", [says("Known."), calls(("respond", {"answer": "Known."}), first_id=2)], ids=str)
async def test_the_last_turn_and_the_outcome_are_stored_in_one_record(last):
    """The last turn and the outcome are stored in one record; interrupted before it, a run keeps its reply pending."""
    journal = Notebook()
    await Run(job(ScriptedProvider([calls(("look", {})), last]), 9), journal=journal).outcome()
    assert [record.snapshot.turns for record in journal.of(Checkpointed)] == [0, 1]
    (ended,) = journal.of(Ended)
    assert ended.checkpointed.snapshot.turns == 2
    rows = rows_of("run-1", "me", [ended], 1)
    assert (rows.turns, len(rows.tails[0][1]), bool(rows.snapshot), bool(rows.ending)) == (
        2,
        len(ended.checkpointed.messages),
        True,
        True,
    )

"""The records that a run writes to its journal, and their order."""

import asyncio
from dataclasses import replace

import pytest

from run_specialist.errors import ContextExceeded, ProviderError
from run_specialist.loop.run import Run
from run_specialist.record.journal import Checkpointed, Ended, EventLogged, Opened, Received, Returned
from run_specialist.record.messages import Stop
from run_specialist.tools.base import Tool
from tests.journals import Notebook, stored
from tests.loop.journalled_runs import ORIGIN, recorded_run
from tests.loop.stored_replies import ANSWER, looks
from tests.loop_jobs import job
from tests.scripted_provider import ScriptedProvider, calls, says

pytestmark = pytest.mark.anyio


def order(notebook):
    """Return the kinds of all records but events."""
    return [type(record) for record in notebook.records if not isinstance(record, EventLogged)]


async def test_records_follow_the_order_of_the_run():
    """Records follow the run: opened, a checkpoint before each request, the reply, each call, and the end."""
    _, outcome, notebook = await recorded_run([looks(1, 2), looks(3), ANSWER])
    turn = [Checkpointed, Received]
    assert order(notebook) == [Opened, *turn, Returned, Returned, *turn, Returned, *turn, Ended]
    assert isinstance(notebook.records[1], EventLogged)
    assert notebook.records[-1].event.outcome is outcome
    assert [one.number for one in notebook.of(Received)] == [1, 2, 3]
    assert [(one.number, one.turn) for one in notebook.of(Returned)] == [(1, 1), (2, 1), (3, 2)]
    times = [record.at for record in notebook.records]
    assert times == sorted(times)


def places(notebook):
    """Return where the messages of each record stand, and how many there are."""
    (ended,) = notebook.of(Ended)
    return [(one.place, len(one.messages)) for one in [*notebook.of(Checkpointed), ended.checkpointed]]


async def test_results_sent_with_the_landing_instruction_are_recorded_again():
    """Results that are sent with the landing instruction appended are recorded again in that form."""
    run, _, notebook = await recorded_run([looks(1), looks(2), ANSWER], limit=2, landing="order")
    assert places(notebook) == [(0, 1), (1, 2), (3, 2), (4, 3)]
    assert run.transcript[4].landing_instruction
    assert stored(notebook.records).transcript == run.transcript


async def test_a_reply_is_recorded_with_its_request():
    """A reply's record holds the tool choice, whether it was a landing, the landing instruction and the price."""
    _, _, notebook = await recorded_run([looks(1), looks(2), ANSWER], 1)
    first, forced, ordered = notebook.of(Received)
    assert [(one.choice, one.landing) for one in (first, forced, ordered)] == [
        ("auto", False),
        ("respond", True),
        ("auto", True),
    ]
    assert (first.landing_instruction, forced.landing_instruction) == (None, None)
    assert "0 tool calls remain" in ordered.landing_instruction
    assert [one.cost_usd for one in notebook.of(Received)] == [0.00015] * 3


BESIDE = calls(("look", {"query": "a"}), ("respond", {"answer": "It is known."}), ("look", {"query": "b"}), first_id=50)
EXITS = {
    "limit": ([looks(1), looks(2, 2), ANSWER], "landed"),
    "answer beside calls": ([BESIDE, ANSWER], "landed"),
    "error": ([looks(1), ProviderError("down")], "failed"),
    "context": ([looks(1), ContextExceeded("full")], "partial"),
    "bug": ([looks(1), RuntimeError("a bug")], "failed"),
    "cut": ([looks(1), says("It is", Stop.TRUNCATED), says("It", Stop.TRUNCATED)], "partial"),
    "cut calls": ([replace(looks(1), stop=Stop.TRUNCATED, more_room_helps=False)], "failed"),
    "refusal": ([looks(1), replace(looks(2), stop=Stop.REFUSED)], "failed"),
    "misfit": ([replace(looks(1), stop=Stop.ANSWERED), replace(looks(2), stop=Stop.ANSWERED)], "failed"),
}


@pytest.mark.parametrize("how", EXITS)
async def test_x_10_on_every_exit_each_stored_call_has_its_result(how):
    """On every exit the stored messages equal those of the run, and every call has a result."""
    script, status = EXITS[how]
    run, outcome, notebook = await recorded_run(script, 2)
    assert outcome.status == status
    kept_run = stored(notebook.records)
    assert kept_run.status == status
    assert kept_run.transcript == run.transcript
    assert kept_run.pending is None
    called = [block["id"] for one in run.transcript for block in one.blocks if block["type"] == "tool_use"]
    answered = [
        block["tool_use_id"] for one in run.transcript for block in one.blocks if block["type"] == "tool_result"
    ]
    assert called == answered
    assert {call.call.id for call in kept_run.calls} <= set(answered)


@pytest.mark.parametrize("at", ["tool", "request"])
async def test_s3_6_an_aborted_run_is_stored_with_its_results(at):
    """After an abort during a tool call or a request, the stored run has each result and the outcome."""
    reached = asyncio.Event()

    async def slow(query: str = "") -> str:
        if query == "2":
            reached.set()
            await asyncio.Event().wait()
        return f"note {query}"

    class Silent(ScriptedProvider):
        async def ask(self, request):
            """Say nothing to the second request, where that is what is wanted."""
            if len(self.requests) == 1 and at == "request":
                reached.set()
                await asyncio.Event().wait()
            return await super().ask(request)

    notebook = Notebook()
    provider = Silent([looks(1, 1 if at == "request" else 2)])
    run = Run(job(provider, tools=[Tool("look", "Look.", slow)], origin=lambda: ORIGIN), journal=notebook)
    task = asyncio.create_task(run.outcome())
    await reached.wait()
    run.abort()
    assert (await task).status == "aborted"
    kept_run = stored(notebook.records)
    assert kept_run.status == "aborted"
    assert kept_run.transcript == run.transcript
    results = [block["content"] for block in run.transcript[-1].blocks]
    assert results[0] == "note 1"
    assert len(results) == len(kept_run.calls) == (1 if at == "request" else 2)

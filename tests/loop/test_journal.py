"""What a run puts on record, in which order, and where it waits for it; a journal that fails costs no answer."""

import asyncio
from dataclasses import replace

import pytest

from run_specialist.errors import ContextExceeded, ProviderError
from run_specialist.loop import checkpoint
from run_specialist.loop.run import Run
from run_specialist.providers.scripted import ScriptedProvider, calls, says
from run_specialist.record.journal import Checkpointed, Ended, EventLogged, Opened, Received, Returned
from run_specialist.record.messages import Stop
from run_specialist.tools.base import Tool
from tests.journals import Notebook, stored
from tests.loop_jobs import job

pytestmark = pytest.mark.anyio
ANSWER = calls(("respond", {"answer": "It is known."}), first_id=90)


def looks(number, count=1):
    """Make a reply that looks something up; numbers differ within a run."""
    wanted = [("look", {"query": str(number + extra)}) for extra in range(count)]
    return calls(*wanted, first_id=number)


async def kept(script, limit=9, **settings):
    """Run a script, and return the run, its outcome and its journal."""
    notebook, provider = Notebook(), ScriptedProvider(script)
    run = Run(job(provider, limit, origin=ORIGIN, **settings), journal=notebook)
    return run, await run.outcome(), notebook


ORIGIN = {"settings": {}, "file": "<looker>", "digest": "", "root": "/", "given_tools": ["look"], "warnings": []}


def order(notebook):
    """Return the kinds of all records but events."""
    return [type(record) for record in notebook.records if not isinstance(record, EventLogged)]


async def test_records_come_in_the_order_in_which_things_happen():
    """Opened, how it stands before each request, the reply, each call, at last the outcome with how it then stands."""
    _, outcome, notebook = await kept([looks(1, 2), looks(3), ANSWER])
    turn = [Checkpointed, Received]
    assert order(notebook) == [Opened, *turn, Returned, Returned, *turn, Returned, *turn, Ended]
    assert isinstance(notebook.records[1], EventLogged)
    assert notebook.records[-1].event.outcome is outcome
    assert [one.turn for one in notebook.of(Received)] == [1, 2, 3]
    assert [(one.number, one.turn) for one in notebook.of(Returned)] == [(1, 1), (2, 1), (3, 2)]
    times = [record.at for record in notebook.records]
    assert times == sorted(times)


def places(notebook):
    """Return where the messages of each record stand, and how many there are."""
    (ended,) = notebook.of(Ended)
    return [(one.place, len(one.messages)) for one in [*notebook.of(Checkpointed), ended.stood]]


async def test_what_was_said_is_put_on_record_once():
    """Each record begins behind the one before."""
    run, _, notebook = await kept([looks(1), looks(2), ANSWER])
    assert places(notebook) == [(0, 1), (1, 2), (3, 2), (5, 2)]
    assert stored(notebook.records).transcript == run.transcript


async def test_what_went_out_with_words_of_ours_is_put_on_record_again():
    """The order joins the last results as they go out, after they were put on record."""
    run, _, notebook = await kept([looks(1), looks(2), ANSWER], limit=2, landing="order")
    assert places(notebook) == [(0, 1), (1, 2), (3, 2), (4, 3)]
    assert run.transcript[4].landing_instruction
    assert stored(notebook.records).transcript == run.transcript


async def test_a_reply_is_kept_with_the_request_that_it_answers():
    """What it left to the model, whether it was a landing, our last words, the price."""
    _, _, notebook = await kept([looks(1), looks(2), ANSWER], 1)
    first, forced, ordered = notebook.of(Received)
    assert [(one.choice, one.landing) for one in (first, forced, ordered)] == [
        ("auto", False),
        ("respond", True),
        ("auto", True),
    ]
    assert (first.landing_instruction, forced.landing_instruction) == (None, None)
    assert "0 tool calls remain" in ordered.landing_instruction
    assert [one.cost_usd for one in notebook.of(Received)] == [0.00015] * 3


async def test_a_call_is_kept_whole_and_with_what_was_shown_of_it():
    """All of the output, redacted, and how much a result may hold."""
    long = Tool("look", "Look.", lambda query: f"ANTHROPIC_API_KEY=sk-ant-api03-{'a' * 90} " + "x" * 30_000)
    _, _, notebook = await kept([looks(1), ANSWER], tools=[long])
    (one,) = notebook.of(Returned)
    assert one.characters == 20_000
    assert len(one.whole) > 30_000
    assert "sk-ant-api03-aaa" not in one.whole
    assert stored(notebook.records).calls[0].text == one.whole[:20_000]


EXITS = {
    "limit": ([looks(1), looks(2, 2), ANSWER], "landed"),
    "answer beside calls": (
        [calls(("look", {"query": "a"}), ("respond", {"answer": "It is known."}))],
        "answered",
    ),
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
    """However it ends: what stands in the store is what the run says, and no call is left open."""
    script, status = EXITS[how]
    run, outcome, notebook = await kept(script, 2)
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
async def test_s3_6_an_abort_keeps_everything_so_far(at):
    """In the middle of a tool, or of a request: the stored run has each result, and the outcome."""
    reached = asyncio.Event()

    async def slow(query: str = "") -> str:
        if query == "2":
            reached.set()
            await asyncio.Event().wait()
        return f"note {query}"

    class Silent(ScriptedProvider):
        async def ask(self, messages, choice, max_tokens):
            """Say nothing to the second request, where that is what is wanted."""
            if len(self.asked) == 1 and at == "request":
                reached.set()
                await asyncio.Event().wait()
            return await super().ask(messages, choice, max_tokens)

    notebook = Notebook()
    provider = Silent([looks(1, 1 if at == "request" else 2)])
    run = Run(job(provider, tools=[Tool("look", "Look.", slow)], origin=ORIGIN), journal=notebook)
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


LOST = "this run is not stored: the disk is full"


class Slow(Notebook):
    """A journal that has kept nothing until somebody waits, and writes down who did so after which record."""

    def __init__(self):
        super().__init__()
        self.waits = []

    async def committed(self):
        """Keep everything."""
        self.waits.append(len(self.records))
        await asyncio.sleep(0)


async def test_all_that_came_before_is_kept_before_the_next_request_goes_out():
    """It waits before each request but the first, and before the outcome is handed over."""
    slow, asked_at = Slow(), []

    def reply(say):
        def line(asked):
            asked_at.append(list(slow.waits))
            return say

        return line

    provider = ScriptedProvider([reply(looks(1)), reply(looks(2)), reply(ANSWER)])
    outcome = await Run(job(provider, origin=ORIGIN), journal=slow).outcome()
    assert outcome.status == "answered"
    assert [len(waits) for waits in asked_at] == [0, 1, 2]
    kinds = [type(record) for record in slow.records]
    for waits in asked_at[1:]:
        # What is not yet awaited by then is the event that the request goes out.
        assert kinds[waits[-1] - 1] is Checkpointed
    assert kinds[slow.waits[-1] - 1] is Ended


class Failing(Notebook):
    """A journal that loses everything from a record on, and says so once."""

    def __init__(self, after):
        super().__init__()
        self._left = after
        self._told = False

    def write(self, record):
        """Take a record, or lose it."""
        self._left -= 1
        if self._left >= 0:
            super().write(record)

    async def committed(self):
        """Tell that something was lost."""
        if self._left >= 0 or self._told:
            return None
        self._told = True
        return LOST


async def test_a_journal_that_fails_at_any_record_is_one_warning():
    """Wherever it happens: the same answer, the same requests, and a run that is no longer kept."""
    script, events = [looks(1, 2), looks(3), ANSWER], []
    _, whole, notebook = await kept(script)
    end = next(at for at, record in enumerate(notebook.records) if isinstance(record, Ended))
    same = {"warnings": (), "duration_s": 0, "limits": {}}
    for after in range(end + 1):
        events.clear()
        run = Run(job(ScriptedProvider(script), 9, origin=ORIGIN), events.append, journal=Failing(after))
        outcome = await run.outcome()
        assert replace(outcome, **same) == replace(whole, **same)
        assert not run.is_kept
        assert [event.text for event in events if event.event == "warning"] == [LOST]
        # When the outcome itself is lost, it is too late to say so in it.
        assert outcome.warnings == ((LOST,) if after < end else ())


async def test_a_run_is_kept_only_where_a_journal_keeps_it():
    """None given: nothing is kept; and one that failed keeps it no longer."""
    without = Run(job(ScriptedProvider([ANSWER])))
    await without.outcome()
    assert not without.is_kept
    with_one, _, _ = await kept([ANSWER])
    assert with_one.is_kept


async def test_a_disk_that_hangs_costs_a_warning_and_no_answer(monkeypatch):
    """After a while the run goes on without knowing that it is kept."""

    class Hanging(Notebook):
        async def committed(self):
            """Never return."""
            await asyncio.Event().wait()

    monkeypatch.setattr(checkpoint, "PATIENCE", 0.01)
    run = Run(job(ScriptedProvider([looks(1), looks(2), ANSWER]), origin=ORIGIN), journal=Hanging())
    outcome = await run.outcome()
    assert outcome.answer == "It is known."
    assert outcome.warnings == (checkpoint.SLOW,)
    assert not run.is_kept


async def test_a_cancellation_from_outside_waits_for_the_disk_and_goes_on_its_way():
    """The outcome is on record before the cancellation comes out."""
    reached = asyncio.Event()

    async def slow(query: str = "") -> str:
        reached.set()
        await asyncio.Event().wait()
        return ""

    notebook = Slow()
    run = Run(job(ScriptedProvider([looks(1)]), tools=[Tool("look", "Look.", slow)], origin=ORIGIN), journal=notebook)
    task = asyncio.create_task(run.outcome())
    await reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert stored(notebook.records).status == "aborted"
    assert isinstance(notebook.records[notebook.waits[-1] - 1], Ended)


class Waiting(Notebook):
    """Takes its time to say that something is kept."""

    def __init__(self) -> None:
        super().__init__()
        self.waited_for = asyncio.Event()
        self.go = asyncio.Event()

    async def committed(self) -> str | None:
        """Wait for the test."""
        self.waited_for.set()
        await self.go.wait()
        return None


async def test_s3_6_who_cancels_twice_while_the_outcome_is_kept_loses_nothing():
    """The cancellation goes on its way when the outcome is on record and told, not before."""
    journal, events = Waiting(), []
    running = asyncio.ensure_future(Run(job(ScriptedProvider([says("x")])), events.append, journal=journal).outcome())
    await journal.waited_for.wait()
    for _ in range(2):
        running.cancel()
        await asyncio.sleep(0)
    journal.go.set()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert [record.outcome.answer for record in journal.of(Ended)] == ["x"]
    assert events[-1].outcome.answer == "x"

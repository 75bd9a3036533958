"""Answers that went back to the model, in runs that are interrupted and resumed."""

import pytest

from run_specialist import prompts
from run_specialist.loop.evidence import MARKS, ReturnReason
from run_specialist.record import journal
from run_specialist.record.journal import Checkpointed, Received
from run_specialist.tools.base import Tool
from tests.loop.stored_replies import looks
from tests.loop_jobs import results
from tests.scripted_provider import calls, says

pytestmark = pytest.mark.anyio
ENDED = prompts.PROCESS_ENDED.format(tool="look")
READ = {"source": "1", "quote": "note on '1'"}
LATE = calls(("respond", {"answer": "late", "evidence": [READ]}), first_id=90)
UNFOUNDED = calls(("respond", {"answer": "early"}), first_id=70)


def beside(*quotes, first_id=20):
    """Make a turn that responds between two other calls."""
    respond = ("respond", {"answer": "early", "evidence": list(quotes)})
    return calls(("look", {"query": "a"}), respond, ("look", {"query": "b"}), first_id=first_id)


async def dies(desk, kind, number, *script, before=False, **settings):
    """Work in a process that dies right after a record of a kind, or before it."""
    going = await desk.record(*script, **settings)
    await desk.keep(going.notebook.until(kind, number, before=before))


@pytest.mark.parametrize(
    ("kind", "number", "known"), [(Received, 2, 0), (journal.Returned, 2, 1), (journal.Returned, 3, 2)]
)
async def test_g_4_calls_that_were_running_are_not_run_again(desk, kind, number, known):
    """After a crash while the calls ran, each has its stored result or the reason, and `respond` is asked for again."""
    await dies(desk, kind, number, looks(1), beside({"source": "a", "quote": "note on 'a'"}), LATE)
    begun = []
    desk.tools = [Tool("look", "Look something up.", lambda query="", part=0: begun.append(query))]
    again = await desk.go_on(LATE)
    first, told, last = results(again.requests[0].messages[-1])
    assert begun == []
    assert told == prompts.TOO_EARLY
    assert [first, last] == [*["note on 'a', part 0", "note on 'b', part 0"][:known], *[ENDED] * (2 - known)]
    assert (again.outcome.status, again.outcome.answer, again.outcome.tool_calls.used) == ("answered", "late", 3)


async def test_g_4_an_answer_that_is_taken_leaves_no_mark_on_calls_after_a_further_question(desk):
    """Calls beside an accepted answer were not begun: those after a follow-up question run."""
    await dies(desk, Received, 2, looks(1), beside(READ), LATE)
    again = await desk.go_on(looks(40, 2), LATE, question="And then?")
    assert results(again.requests[1].messages[-1]) == ["note on '40', part 0", "note on '41', part 0"]
    assert (again.outcome.answer, again.outcome.tool_calls.used) == ("late", 3)


async def test_g_4_once_a_run_holds_across_a_crash(desk):
    """After a crash the second early answer is taken, and the calls beside it are not run."""
    await dies(desk, Checkpointed, 3, looks(1), beside(), LATE)
    again = await desk.go_on(beside(first_id=30))
    assert (again.outcome.status, again.outcome.answer, again.outcome.tool_calls.used) == ("answered", "early", 3)


async def test_g_4_an_early_answer_from_a_landing_is_taken_also_under_a_higher_limit(desk):
    """Calls beside `respond` in a landing never run, so there is nothing to wait for."""
    await dies(desk, Received, 2, looks(1), beside(), tool_calls_limit=1)
    again = await desk.go_on(tool_calls_limit=9)
    assert (again.outcome.status, again.outcome.answer, again.outcome.tool_calls.used) == ("answered", "early", 1)


@pytest.mark.parametrize(("kind", "number"), [(Received, 2), (Checkpointed, 3)])
async def test_g_5_once_a_run_and_the_kept_answer_hold_across_a_crash(desk, kind, number):
    """An answer goes back once, whether the process ended before or after that, and it is kept."""
    await dies(desk, kind, number, looks(1), UNFOUNDED, LATE, evidence="require")
    again = await desk.go_on(says(""), says(""))
    assert again.outcome.status == "partial"
    assert again.outcome.answer == f"early\n{MARKS[ReturnReason.WITHOUT_QUOTE]}"
    assert "it has no quote" in results(again.requests[0].messages[-1])[0]


async def test_g_5_after_a_crash_a_second_one_is_partial(desk):
    """The second answer without a quote ends the run after a crash, too."""
    await dies(desk, Checkpointed, 3, looks(1), UNFOUNDED, LATE, evidence="require")
    again = await desk.go_on(says("still nothing"))
    assert (again.outcome.status, again.outcome.answer) == ("partial", "still nothing")


async def test_g_5_a_further_question_begins_anew(desk):
    """The answer to a follow-up question goes back once, and the earlier answer is not kept for it."""
    await desk.ask(looks(1), UNFOUNDED, says("still nothing"), evidence="require")
    again = await desk.go_on(says("no quote"), says(""), says(""), question="And then?")
    assert (again.outcome.status, again.outcome.answer.splitlines()[0]) == ("partial", "no quote")
    again = await desk.go_on(says(""), says(""), question="And now?")
    assert again.outcome.status == "failed"

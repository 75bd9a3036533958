"""Texts that the user adds while a run works."""

import pytest

from run_specialist import Called, ChildTold, Landed, Replied, Runner, Steered, UsageError
from tests.loop.replies import ANSWER, THREE, answers, asks, looks, looks_for
from tests.loop_jobs import LOOK, results
from tests.scripted_provider import ScriptedProvider
from tests.scripted_specialists import ScriptedSpecialists

ADDED = "The user adds: Only 2025."


async def steered(desk, script, when, **settings):
    """Ask a question and add a text at each event for which `when` is true; return what came of it."""
    provider, taken = ScriptedProvider(script), []
    async with desk.process(provider=provider) as runner:

        def listen(event):
            if isinstance(event, Steered):
                taken.append(event)
            elif when(event):
                taken.append(run.steer(" Only 2025. "))

        run = await runner.prepare(desk.specialist, "What is known?", listener=listen, **settings)
        outcome = await run.outcome()
        assert run.steer("More?") is False
    provider.assert_used_up()
    return outcome, provider, taken


def at_call(number):
    """Return a condition that holds when a call has started."""
    return lambda event: isinstance(event, Called) and (event.phase, event.id) == ("started", f"call_{number}")


async def test_a_text_goes_into_the_last_result_and_stays_there(desk):
    """It follows the newest results in each later request, and after a resumption from the store."""
    outcome, provider, taken = await steered(desk, [looks(1), looks(2), ANSWER], at_call(1), tool_calls_limit=3)
    assert (outcome.status, outcome.warnings) == ("answered", ())
    assert taken == [True, Steered(2, "Only 2025.")]
    (block,) = provider.requests[1].messages[-1].content
    assert (block["type"], block["content"].splitlines()[-1]) == ("tool_result", ADDED)
    sent = [[message.encoded for message in request.messages] for request in provider.requests]
    assert sent[2][:3] == sent[1]
    again = await desk.go_on(looks(4), ANSWER, question="And?")
    assert [message.encoded for message in again.requests[0].messages][:5] == sent[2]


async def test_a_text_that_comes_too_late_is_refused_or_named(desk):
    """In a landing it is refused; one that no request carries is in the warnings; an empty one is an error."""
    outcome, _, taken = await steered(desk, [*THREE, ANSWER], lambda e: isinstance(e, Landed), tool_calls_limit=3)
    assert (taken, outcome.warnings) == ([False], ())
    ends = [looks(1), ANSWER]
    outcome, _, taken = await steered(desk, ends, lambda e: isinstance(e, Replied) and e.turn == 2)
    assert taken == [True]
    assert outcome.warnings == ("the run ended before it could hear this; ask it as a further question: Only 2025.",)
    async with desk.process(provider=ScriptedProvider([ANSWER])) as runner:
        run = await runner.prepare(desk.specialist, "What is known?")
        with pytest.raises(UsageError, match="the text is empty"):
            run.steer(" \n")
        run.abort()
        assert run.steer("More.") is False


async def test_a_text_reaches_the_child_at_work_and_its_parent(tmp_path, monkeypatch, files):
    """It is in the next results of both; a child that has ended does not hear it."""
    monkeypatch.chdir(tmp_path)
    files()
    lead, finder = [asks("finder"), asks("finder"), answers("all")], [looks_for("owls"), answers("mice")]
    cast = ScriptedSpecialists(lead=[lead], finder=[finder, finder])
    taken = []

    def listen(event):
        if isinstance(event, ChildTold) and isinstance(event.told, Called) and event.run_id not in taken:
            taken.append(event.run_id)
            assert run.steer(f"Only {len(taken)}.")

    async with Runner(provider=cast, tools=[LOOK]) as runner:
        run = await runner.prepare("lead", "What is known?", listener=listen)
        outcome = await run.outcome()
    assert (outcome.status, len(taken)) == ("answered", 2)
    for number in (1, 2):
        heard = f"The user adds: Only {number}."
        of_child = results(cast.played["finder"][number - 1].requests[1].messages[-1])
        of_parent = results(cast.played["lead"][0].requests[number].messages[-1])
        assert [text[-1].splitlines()[-1] for text in (of_child, of_parent)] == [heard, heard]
        assert sum("The user adds" in line for line in of_child[-1].splitlines()) == 1

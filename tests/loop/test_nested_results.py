"""Specialists that call each other: permissions, results, errors and events."""

import asyncio
from dataclasses import replace

import pytest

from run_specialist.api.runner import Runner
from run_specialist.errors import ProviderError
from run_specialist.record.events import BudgetSpent, Called, ChildTold
from run_specialist.tools.base import Tool
from tests.loop.nested_replies import answers, asks, looks
from tests.loop_jobs import results
from tests.scripted_provider import calls
from tests.scripted_specialists import ScriptedSpecialists, write

pytestmark = pytest.mark.anyio


async def test_an_untrusted_child_causes_one_warning(run_lead, files, tmp_path):
    """A child that is not trusted causes one warning for two calls, which says what to allow."""
    files(finder=["python_tools: ['app:find']"])
    (tmp_path / ".git").mkdir()
    (tmp_path / "app.py").write_text("def find() -> str:\n    return 'found'\n")
    cast = ScriptedSpecialists(lead=[[asks("finder", "finder"), answers("all")]], finder=[])
    outcome, _ = await run_lead(cast)
    (warning,) = outcome.warnings
    assert warning.startswith("finder could not be asked: ")
    assert "would import app" in warning
    assert "`trust=True`" in warning
    assert (outcome.status, outcome.tool_calls.failed) == ("answered", 2)


async def test_s3_5_a_child_has_no_delegate_tool_unless_its_file_lists_agents(run_lead, files, tmp_path):
    """Permission to delegate is not inherited: a child gets `delegate` only for the `agents` in its own file."""
    files()
    cast = ScriptedSpecialists(lead=[[asks("finder"), answers("all")]], finder=[[answers("mice")]])
    await run_lead(cast)
    assert "delegate" in cast.played["lead"][0].opening.tools
    assert "delegate" not in cast.played["finder"][0].opening.tools
    files(finder=["agents: [deep]"])
    write(tmp_path, "deep")
    cast = ScriptedSpecialists(lead=[[asks("finder"), answers("all")]], finder=[[answers("mice")]])
    await run_lead(cast)
    schema = cast.played["finder"][0].opening.tools.get("delegate").input_schema
    assert schema["properties"]["specialist"] == {"const": "deep", "description": "Which specialist to ask."} | {
        key: value for key, value in schema["properties"]["specialist"].items() if key in {"title", "type"}
    }


async def test_a_quote_from_a_child_is_verified_only_if_the_child_has_read_it(run_lead, files):
    """A child's quote is verified only if it appears in a tool result that the child has read."""
    files()
    quoted = [
        {"source": "look", "quote": "note on 'owls', part 0"},
        {"source": "nowhere", "quote": "Owls eat cheese."},
    ]
    child = [looks("owls"), calls(("respond", {"answer": "Owls eat mice.", "evidence": quoted}), first_id=90)]
    said = [*quoted, {"source": "finder", "quote": "Owls eat mice."}]
    cast = ScriptedSpecialists(
        lead=[[asks("finder"), calls(("respond", {"answer": "all", "evidence": said}), first_id=90)]], finder=[child]
    )
    outcome, _ = await run_lead(cast)
    assert [quote.verified for quote in outcome.evidence] == [True, False, False]
    assert [quote.verified for quote in outcome.children[0].evidence] == [True, False]


async def test_a_failed_child_becomes_an_error_result(run_lead, files):
    """A child whose provider fails becomes an error result; its spending is counted and the parent answers."""
    files()
    cast = ScriptedSpecialists(
        lead=[[asks("finder"), answers("all")]], finder=[[looks("a"), ProviderError("the server is gone")]]
    )
    outcome, _ = await run_lead(cast)
    (block,) = cast.played["lead"][0].requests[1].messages[-1].content
    assert block["is_error"]
    assert "the server is gone" in block["content"]
    assert "note on 'a'" in block["content"]
    assert (outcome.status, outcome.tool_calls.used, outcome.tool_calls.failed) == ("answered", 2, 1)


async def test_an_abort_keeps_the_results_of_the_child(files, tmp_path, monkeypatch):
    """After an abort the child's calls are counted and its results are part of the parent's salvage."""
    files()
    monkeypatch.chdir(tmp_path)
    begun, never = asyncio.Event(), asyncio.Event()

    async def look(query: str) -> str:
        if query == "for ever":
            begun.set()
            await never.wait()
        return f"note on {query}"

    cast = ScriptedSpecialists(lead=[[asks("finder")]], finder=[[looks("owls"), looks("for ever", first_id=2)]])
    async with Runner(provider=cast, tools=[Tool("look", "Look.", look)]) as runner:
        run = await runner.prepare("lead", "What is known?")
        task = asyncio.create_task(run.outcome())
        await begun.wait()
        run.abort()
        outcome = await task
    (child,) = outcome.children
    assert (outcome.status, child.status, child.tool_calls, outcome.tool_calls.used) == ("aborted", "aborted", 2, 3)
    assert "note on owls" in outcome.answer
    assert outcome.usage.input_tokens == 30


async def test_child_events_reach_the_parents_listener_wrapped(run_lead, files):
    """The parent's listener receives the child's events wrapped, between start and end of the delegate call."""
    files()
    cast = ScriptedSpecialists(lead=[[asks("finder"), answers("all")]], finder=[[looks("owls"), answers("mice")]])
    _, events = await run_lead(cast)
    names = [f"{event.event}/{event.told.event}" if isinstance(event, ChildTold) else event.event for event in events]
    begin = next(i for i, event in enumerate(events) if isinstance(event, Called) and event.phase == "started")
    end = next(i for i, event in enumerate(events) if isinstance(event, Called) and event.phase == "finished")
    inside = [name for name in names if name.startswith("child/")]
    assert names[begin + 1 : end] == inside
    assert (inside[0], inside[-1]) == ("child/started", "child/finished")
    spent = [event.used for event in events if isinstance(event, BudgetSpent)]
    assert spent == [2]
    assert all(isinstance(event.as_json()["told"], dict) for event in events if isinstance(event, ChildTold))


async def test_a_child_without_a_model_uses_its_parents(tmp_path, monkeypatch):
    """A child without a model uses its parent's provider; one that names a model gets its own, created once."""
    made = []

    def make(model):
        cast = ScriptedSpecialists(
            lead=[[asks("finder", "other"), answers("all")]], finder=[[answers("mice")]], other=[[answers("rats")]]
        )
        made.append(model)
        return cast

    monkeypatch.setattr("run_specialist.providers.choose.make_provider", make)
    monkeypatch.chdir(tmp_path)
    write(tmp_path, "lead", "agents: [finder, other]", "model: opus")
    write(tmp_path, "finder")
    write(tmp_path, "other", "model: haiku")
    async with Runner() as runner:
        outcome = await runner.run("lead", "What is known?")
    assert (made, outcome.answer, len(outcome.children)) == (["opus", "haiku"], "all", 2)


async def test_g_5_verified_quotes_of_a_child_count_for_its_parent(run_lead, files):
    """A parent that requires quotes may rest on what its child has read, and on nothing else of the child."""
    files(lead=["evidence: require"])
    quote = {"source": "look", "quote": "note on 'owls', part 0"}
    child = [looks("owls"), calls(("respond", {"answer": "Owls eat mice.", "evidence": [quote]}), first_id=90)]
    said = calls(("respond", {"answer": "all", "evidence": [{"source": "finder", "quote": "Owls eat mice."}]}))
    good = calls(("respond", {"answer": "all", "evidence": [quote]}), first_id=90)
    cast = ScriptedSpecialists(
        lead=[[asks("finder"), replace(said, content=({**said.content[0], "id": "r1"},)), good]], finder=[child]
    )
    outcome, _ = await run_lead(cast)
    (told,) = results(cast.played["lead"][0].requests[2].messages[-1])
    assert '"Owls eat mice."' in told
    assert (outcome.status, outcome.warnings) == ("answered", ())


async def test_g_4_specialists_asked_beside_an_answer_are_asked_first(run_lead, files):
    """A `delegate` call beside `respond` runs its child, whose quotes the next answer may use."""
    files()
    quote = {"source": "look", "quote": "note on 'owls', part 0"}
    respond = ("respond", {"answer": "early", "evidence": [quote]})
    both = calls(("delegate", {"specialist": "finder", "query": "What of owls?"}), respond)
    child = [looks("owls"), calls(("respond", {"answer": "Owls eat mice.", "evidence": [quote]}), first_id=90)]
    good = calls(("respond", {"answer": "late", "evidence": [quote]}), first_id=90)
    outcome, _ = await run_lead(ScriptedSpecialists(lead=[[both, good]], finder=[child]))
    assert (outcome.answer, outcome.tool_calls.used, len(outcome.children)) == ("late", 2, 1)
    assert [one.verified for one in outcome.evidence] == [True]


async def test_g_5_a_parent_reads_which_quotes_of_its_child_were_not_found(run_lead, files):
    """The result of `delegate` names them."""
    files()
    invented = {"source": "nowhere", "quote": "Owls eat cheese."}
    child = [looks("owls"), calls(("respond", {"answer": "cheese", "evidence": [invented]}), first_id=90)]
    cast = ScriptedSpecialists(lead=[[asks("finder"), answers("all")]], finder=[child])
    await run_lead(cast)
    (told,) = results(cast.played["lead"][0].requests[1].messages[-1])
    assert '[0 of 1 quotes found in what it read. Do not rely on: "Owls eat cheese."]' in told

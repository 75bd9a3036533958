"""Stored runs of specialists that call each other: each is stored once, and a parent can be resumed after a crash."""

import asyncio
import threading

import pytest

from run_specialist.api.runner import Runner
from run_specialist.loop.run import Run
from run_specialist.record.events import ChildTold
from run_specialist.record.journal import Checkpointed, Ended, EventLogged, Returned
from run_specialist.store.reader import Store
from run_specialist.store.writer import Writer
from run_specialist.tools.base import Tool
from tests.journals import Notebook, keep
from tests.loop_jobs import LOOK, results
from tests.scripted_provider import calls
from tests.scripted_specialists import ScriptedSpecialists, write

pytestmark = pytest.mark.anyio

ASKS = calls(("delegate", {"specialist": "finder", "query": "What of owls?"}))
LOOKS = calls(("look", {"query": "owls"}))


def answers(text: str):
    """Make a reply that ends a run."""
    return calls(("respond", {"answer": text}), first_id=90)


@pytest.fixture
def store(tmp_path, monkeypatch):
    """Return the URL of a store, and write a parent and its child."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path, "lead", "agents: [finder]", "tool_calls_limit: 10")
    write(tmp_path, "finder", "tool_calls_limit: 6")
    return f"sqlite:///{tmp_path}/runs.db"


async def test_x_11_a_resumed_parent_keeps_its_children(store):
    """A resumed parent counts its first child once, and sends an identical `delegate` definition."""
    cast = ScriptedSpecialists(lead=[[ASKS, answers("some")]], finder=[[LOOKS, answers("mice")]])
    async with Runner(provider=cast, tools=[LOOK], store=store) as runner:
        first = await runner.run("lead", "What is known?")
    again = calls(("delegate", {"specialist": "finder", "query": "And bats?"}), first_id=20)
    more = ScriptedSpecialists(lead=[[again, answers("all")]], finder=[[answers("moths")]])
    async with Runner(provider=more, tools=[LOOK], store=store) as runner:
        run = await runner.resume(first.run_id, "And bats?")
        outcome = await run.outcome()
    before, after = (one.played["lead"][0].opening.tools.get("delegate").definition for one in (cast, more))
    assert before == after
    assert [child.tool_calls for child in outcome.children] == [1, 0]
    assert (outcome.tool_calls.used, outcome.usage.input_tokens) == (3, 70)


async def test_a_resumed_child_works_in_the_root_of_its_parent(store, tmp_path):
    """A resumed run and its child work in the run's own root, even if the new runner has another root."""
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "owls.md").write_text("Owls eat mice.\n")
    write(tmp_path, "finder", "tools: [read]")
    first = ScriptedSpecialists(lead=[[answers("nothing yet")]])
    async with Runner(provider=first, root=notes, store=store) as runner:
        begun = await runner.run("lead", "What is known?")
    reads = calls(("read", {"path": "owls.md"}))
    more = ScriptedSpecialists(lead=[[ASKS, answers("all")]], finder=[[reads, answers("mice")]])
    async with Runner(provider=more, root=tmp_path, store=store) as runner:
        outcome = await (await runner.resume(begun.run_id, "What of owls?")).outcome()
    assert [child.status for child in outcome.children] == ["answered"]
    assert "Owls eat mice." in results(more.played["finder"][0].requests[1].messages[-1])[0]
    with Store(store) as kept:
        assert kept.load(outcome.children[0].run_id).frozen["root"] == str(notes)


async def test_a_run_resumed_from_another_project_calls_its_own_specialists(store, tmp_path, monkeypatch):
    """A run resumed from another project calls its own project's specialists; the `delegate` tool is identical."""
    (tmp_path / ".git").mkdir()
    first = ScriptedSpecialists(lead=[[answers("nothing yet")]])
    async with Runner(provider=first, store=store) as runner:
        begun = await runner.run("lead", "What is known?")
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / ".git").mkdir(parents=True)
    write(elsewhere, "finder", "tool_calls_limit: 0")
    monkeypatch.chdir(elsewhere)
    more = ScriptedSpecialists(lead=[[ASKS, answers("all")]], finder=[[answers("mice")]])
    async with Runner(root=tmp_path, provider=more, store=store) as runner:
        outcome = await (await runner.resume(begun.run_id, "What of owls?")).outcome()
    assert ([child.status for child in outcome.children], outcome.warnings) == (["answered"], ())
    before, after = (one.played["lead"][0].opening.tools.get("delegate").definition for one in (first, more))
    assert before == after


async def test_resuming_a_run_does_not_block_the_event_loop(store, monkeypatch):
    """Resuming a run reads the store without blocking the event loop."""
    cast = ScriptedSpecialists(lead=[[answers("some")], [answers("all")]])
    claim, loop, going_on = Writer.claim, asyncio.get_running_loop(), threading.Event()

    def slowly(writer, run):
        loop.call_soon_threadsafe(going_on.set)
        assert going_on.wait(60), "the loop stood still"
        return claim(writer, run)

    async with Runner(provider=cast, store=store) as runner:
        first = await runner.run("lead", "What is known?")
        monkeypatch.setattr(Writer, "claim", slowly)
        outcome = await (await runner.resume(first.run_id, "And bats?")).outcome()
    assert (going_on.is_set(), outcome.answer) == (True, "all")


async def test_a_run_whose_resume_was_cancelled_can_be_resumed_again(store, monkeypatch):
    """A resume that was cancelled ends the run as aborted, so that the same process can resume it again."""
    cast = ScriptedSpecialists(lead=[[answers("some")], [], [answers("all")]])
    claim, loop = Writer.claim, asyncio.get_running_loop()

    async with Runner(provider=cast, store=store) as runner:
        first = await runner.run("lead", "What is known?")

        async def go_on():
            return await (await runner.resume(first.run_id, "And bats?")).outcome()

        task = asyncio.create_task(go_on())

        def slowly(writer, run):
            loop.call_soon_threadsafe(task.cancel)
            return claim(writer, run)

        with monkeypatch.context() as patched:
            patched.setattr(Writer, "claim", slowly)
            with pytest.raises(asyncio.CancelledError):
                await task
        again = await (await runner.resume(first.run_id, "And bats?")).outcome()
    assert again.answer == "all"


@pytest.mark.parametrize("shared", [True, False])
async def test_x_11_spending_of_a_child_killed_with_its_parent_is_counted(store, tmp_path, shared):
    """If parent and child were killed together, the resumed parent counts the child's requests and calls."""
    if not shared:
        write(tmp_path, "lead", "agents: [finder]", "tool_calls_limit: 10", "share_budget: false")
    looked, never = asyncio.Event(), asyncio.Event()

    async def look(query: str) -> str:
        if query == "bats":
            looked.set()
            await never.wait()
        return f"note on {query}"

    cast = ScriptedSpecialists(lead=[[], [ASKS]], finder=[[LOOKS, calls(("look", {"query": "bats"}), first_id=2)]])
    told = []
    async with Runner(provider=cast, tools=[Tool("look", "Look.", look)], store=store) as runner:
        run = await runner.prepare("lead", "What is known?", listener=told.append)
        notebook = Notebook()
        broken = Run(run.job, told.append, journal=notebook)
        task = asyncio.create_task(broken.outcome())
        await looked.wait()
        broken.abort()
        await task
    child_id = next(event.run_id for event in told if isinstance(event, ChildTold))
    await keep(store, [record for record in notebook.records if not_after_the_call(record)])
    more = ScriptedSpecialists(lead=[[answers("all")]])
    async with Runner(provider=more, tools=[LOOK], store=store) as runner:
        outcome = await (await runner.resume(run.run_id)).outcome()
    (child,) = outcome.children
    assert (child.run_id, child.status, child.tool_calls) == (child_id, "aborted", 2)
    assert outcome.tool_calls.used == (3 if shared else 1)
    assert outcome.usage.input_tokens == 40
    (result,) = results(more.played["lead"][0].requests[0].messages[-1])
    assert result.startswith("Not finished: the process ended before delegate returned")


@pytest.mark.parametrize("shared", [True, False])
async def test_x_11_calls_of_two_killed_levels_are_counted_on_resume(store, tmp_path, monkeypatch, shared):
    """If two nested levels were killed during a call, the replies and started calls of both count on resuming."""
    switch = f"share_budget: {str(shared).lower()}"
    write(tmp_path, "lead", "agents: [finder]", "tool_calls_limit: 20", switch)
    write(tmp_path, "finder", "agents: [deep]", switch)
    write(tmp_path, "deep")
    notebooks: dict[str, Notebook] = {}
    kept: list[list] = []

    async def journal(run_id):
        return notebooks.setdefault(run_id, Notebook())

    def look(query: str) -> str:
        if query == "bats":
            kept.extend([*notebook.records] for notebook in notebooks.values())
        return f"note on {query}"

    deeper = calls(("delegate", {"specialist": "deep", "query": "What of bats?"}), first_id=2)
    last = calls(("look", {"query": "owls"}), ("look", {"query": "bats"}), first_id=2)
    cast = ScriptedSpecialists(
        lead=[[ASKS, answers("all")]], finder=[[LOOKS, deeper, answers("a")]], deep=[[LOOKS, last, answers("b")]]
    )
    async with Runner(provider=cast, tools=[Tool("look", "Look.", look)]) as runner:
        monkeypatch.setattr(runner.environments.store, "journal", journal)
        run = await runner.prepare("lead", "What is known?")
        await run.outcome()
    for records in kept:
        await keep(store, records)
    more = ScriptedSpecialists(lead=[[answers("all")]])
    async with Runner(provider=more, tools=[LOOK], store=store) as runner:
        outcome = await (await runner.resume(run.run_id)).outcome()
    (finder,) = outcome.children
    (deep,) = finder.children
    assert [one.usage.input_tokens for one in (deep, finder, outcome)] == [20, 40, 60]
    assert deep.cost_usd == pytest.approx(0.0003)
    assert [deep.tool_calls, finder.tool_calls, outcome.tool_calls.used] == ([3, 5, 6] if shared else [3, 2, 1])


def not_after_the_call(record) -> bool:
    """Tell whether a process that died while the child was at work had written a record."""
    if isinstance(record, EventLogged):
        return record.event.event not in {"finished", "budget"}
    return not isinstance(record, Returned | Ended) and not (isinstance(record, Checkpointed) and record.snapshot.calls)


async def test_deleting_a_run_deletes_its_children(store):
    """Deleting a run deletes its children and leaves other runs unchanged."""
    cast = ScriptedSpecialists(lead=[[ASKS, answers("all")], [answers("at once")]], finder=[[answers("mice")]])
    async with Runner(provider=cast, store=store) as runner:
        outcome = await runner.run("lead", "What is known?")
        other = await runner.run("lead", "And else?")
    with Store(store) as kept:
        kept.delete([outcome.run_id])
        assert [run.run_id for run in kept.runs()] == [other.run_id]

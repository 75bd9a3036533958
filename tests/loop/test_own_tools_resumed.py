"""Python functions of a project as tools in a resumed run."""

import sys

import pytest

from run_specialist import NotTrusted, ProviderError, Specialist
from tests.loop.tool_runs import ANSWER, LOOKS, LOOKUP, playing
from tests.loop_jobs import results
from tests.scripted_provider import calls

pytestmark = pytest.mark.anyio


async def test_a_resumed_run_reuses_the_trust_of_its_functions(app, tmp_path):
    """A resumed run uses its functions under the trust already given, as long as file and modules are unchanged."""
    app.specialist("python_tools: ['PKG.tools:lookup']", "tool_calls_limit: 1")
    store = str(tmp_path / "runs.db")
    async with playing(LOOKS, ANSWER, trust=True, store=store) as runner:
        assert (await runner.run("finder", "What?")).status == "landed"
    again = calls(("lookup", {"word": "bat"}), first_id=5)
    async with playing(again, ANSWER, store=store) as runner:
        run = await runner.resume("last", tool_calls_limit=3)
        outcome = await run.outcome()
    assert results(runner.script.requests[1].messages[-1])[0].startswith('{"found": "bat"}')
    assert outcome.warnings == ()


async def test_a_function_missing_on_resume_causes_errors_and_a_warning(app, tmp_path):
    """A function missing on resume keeps its definition for the cache; calls return errors, and a warning explains."""
    app.write("PKGgone.py", *LOOKUP)
    path = app.specialist("python_tools: ['PKGgone:lookup']", "tool_calls_limit: 1")
    store = str(tmp_path / "runs.db")
    async with playing(LOOKS, ANSWER, trust=True, store=store) as runner:
        await runner.run("finder", "What?")
    (app.root / f"{app.package}gone.py").unlink()
    del sys.modules[f"{app.package}gone"]
    again = calls(("lookup", {"word": "bat"}), first_id=5)
    async with playing(again, ANSWER, store=store) as runner:
        run = await runner.resume("last", tool_calls_limit=3)
        outcome = await run.outcome()
    assert "lookup" in runner.script.opening.tools.names
    assert results(runner.script.requests[1].messages[-1])[0].startswith("lookup failed: this tool is no longer there")
    (warning,) = outcome.warnings
    assert warning.startswith(f"{path}:4:1: python_tools: {app.package}gone:lookup: no module")


async def test_a_module_changed_before_a_resume_needs_trust_again(app, tmp_path):
    """A module changed before a resume must be allowed again: the run is refused before any import until it is."""
    app.specialist("python_tools: ['PKG.tools:lookup']", "tool_calls_limit: 1")
    store = str(tmp_path / "runs.db")
    async with playing(LOOKS, ANSWER, trust=True, store=store) as runner:
        await runner.run("finder", "What?")
    app.write("PKG/tools.py", "# changed", *LOOKUP)
    async with playing(store=store) as runner:
        with pytest.raises(NotTrusted, match="would import"):
            await runner.resume("last", tool_calls_limit=3)
    async with playing(ANSWER, store=store, trust=True) as runner:
        run = await runner.resume("last", tool_calls_limit=3)
        assert (await run.outcome()).status == "answered"


async def test_the_functions_of_a_program_need_no_trust_when_its_run_is_taken_up(app, tmp_path):
    """A run of a specialist that a program has created is taken up with its functions, without trust."""
    app.write("PKG/tools.py", *LOOKUP)
    functions = (f"{app.package}.tools:lookup",)
    finder = Specialist(name="finder", description="", prompt="You find.", tools=(), python_tools=functions)
    store = str(tmp_path / "runs.db")
    async with playing(LOOKS, ProviderError("gone"), store=store) as runner:
        await (await runner.take_up("an-id", finder, "What?")).outcome()
    again = calls(("lookup", {"word": "bat"}), first_id=5)
    async with playing(again, ANSWER, store=store) as runner:
        outcome = await (await runner.take_up("an-id", finder, "What?", retry="failed")).outcome()
    assert (outcome.status, outcome.tool_calls.used, outcome.tool_calls.failed) == ("answered", 2, 0)


async def test_a_module_that_fails_on_resume_causes_a_warning(app, tmp_path):
    """If a module fails to import on resume, the run continues without its functions and warns."""
    path = app.specialist("python_tools: ['PKG.tools:lookup']", "tool_calls_limit: 1")
    store = str(tmp_path / "runs.db")
    async with playing(LOOKS, ANSWER, trust=True, store=store) as runner:
        await runner.run("finder", "What?")
    app.write("PKG/tools.py", "raise RuntimeError('broken')")
    del sys.modules[f"{app.package}.tools"]
    async with playing(ANSWER, trust=True, store=store) as runner:
        run = await runner.resume("last", tool_calls_limit=3)
        (warning,) = (await run.outcome()).warnings
    assert warning.startswith(
        f"{path}:4:1: python_tools: {app.package}.tools:lookup: importing {app.package}.tools failed"
    )

"""Functions of a project as tools in a run that is resumed."""

import sys

import pytest

from run_specialist import NotTrusted
from run_specialist.providers.scripted import calls
from tests.loop.tool_runs import ANSWER, LOOKS, LOOKUP, playing
from tests.loop_jobs import results

pytestmark = pytest.mark.anyio


async def test_a_resumed_run_has_its_functions_again_by_the_leave_that_was_given(app, tmp_path):
    """No new word is needed while the file and its modules are what they were."""
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


async def test_a_function_that_is_gone_at_a_resume_costs_itself_and_says_so(app, tmp_path):
    """Its definition stays, so that the cache holds; a call of it is an error result, and a warning tells why."""
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


async def test_a_module_that_fails_at_a_resume_costs_its_functions_and_says_so(app, tmp_path):
    """As one that is gone: the run goes on without them."""
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


async def test_a_module_that_changed_before_a_resume_has_to_be_allowed_anew(app, tmp_path):
    """The run is refused before anything is imported, and goes on when somebody allows it."""
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

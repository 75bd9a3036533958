"""Before a run starts, a thread looks for one file matching `paths`, and stops when its time is up."""

import asyncio
import os
from pathlib import Path

import pytest

from run_specialist.api.runner import Runner
from run_specialist.errors import UsageError
from run_specialist.spawning.availability import check_paths
from run_specialist.specialist.fields import Specialist
from run_specialist.specialist.loader import load_text
from run_specialist.tools.files import file_tools
from tests.scripted_provider import ScriptedProvider, calls
from tests.slow_folders import PATIENCE, EndlessWalk

pytestmark = pytest.mark.anyio
ANSWER = calls(("respond", {"answer": "nothing was read"}), first_id=999)


@pytest.fixture
def endless(monkeypatch):
    """Make every folder listing endless."""
    walk = EndlessWalk(monkeypatch)
    yield walk
    walk.stop()


async def checked(root, paths, **settings):
    """Check `paths` of a specialist that was loaded from a file."""
    lines = ["---", "name: finder", "description: Finds", f"paths: {paths}", "---", "You find notes.", ""]
    file = load_text("\n".join(lines), Path("specialists/finder.md"))
    return await check_paths(file, file.specialist.model_copy(update=settings), root)


@pytest.mark.parametrize(
    "paths", ["missing", "missing, also/missing", "notes/*.txt", "[]", "[[notes]]", "hidden", "pipe"]
)
async def test_paths_without_a_matching_file_name_the_remedies(root, paths):
    """If no path matches a visible regular file, the error names the root, `root` and `specialists new`."""
    (root / "hidden").mkdir()
    (root / "hidden" / "x.md").write_text("x")
    (root / ".gitignore").write_text("hidden\n")
    os.mkfifo(root / "pipe")
    with pytest.raises(UsageError, match=rf"finder\.md:4:1: paths: .*under {root}.*`root`.*specialists new"):
        await checked(root, paths)


@pytest.mark.parametrize("paths", ["notes", "top.md", "missing, plans/", "notes/**/b*.md", "'*.md'", "."])
async def test_one_matching_file_is_enough(root, paths):
    """A folder, a file, one of several paths, a glob and `.` each pass the check with one matching file."""
    assert (await checked(root, paths))[1] == ()


@pytest.mark.parametrize(
    "limits", [{"time_limit": 0.1, "tool_timeout": 3600}, {"tool_timeout": 0.05}, {"time_limit": 0}]
)
async def test_a_timeout_ends_the_walk_with_a_warning(root, endless, limits):
    """On timeout the walk ends, a warning names the place, and the time spent is counted."""
    check = await checked(root, "'*.md'", **limits)
    seconds, (warning,) = check
    assert warning.startswith("specialists/finder.md:4:1: paths: no matching file was found within ")
    assert seconds > 0
    # With no time left, the walk may never have started.
    assert not endless.entered.is_set() or await asyncio.to_thread(endless.ended.wait, PATIENCE)


async def test_cancelling_the_check_ends_the_walk(root, endless):
    """Cancelling the check, as when the client disconnects or the run stops, ends the walk."""
    task = asyncio.create_task(checked(root, "'*.md'"))
    await asyncio.to_thread(endless.entered.wait, PATIENCE)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await asyncio.to_thread(endless.ended.wait, PATIENCE)


async def test_a_time_limit_reached_during_the_walk_lands_the_run(root, endless):
    """If time runs out during the walk, the run lands with one model request, names the limit and warns."""
    finder = Specialist(name="finder", description="Finds", prompt="Find.", paths=("*.md",), time_limit=2)
    async with Runner(root=root, provider=ScriptedProvider([ANSWER]), store="none") as runner:
        outcome = await runner.run(finder, "What is there?")
    assert (outcome.status, outcome.landing.reason) == ("landed", "time")
    assert outcome.limits["time"].used >= outcome.limits["time"].limit / 2
    assert "paths: no matching file was found within" in " ".join(outcome.warnings)
    assert await asyncio.to_thread(endless.ended.wait, PATIENCE)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("glob", {"pattern": "*.md"}),
        ("ls", {}),
        ("grep", {"pattern": "x", "glob": "*.md"}),
        ("read", {"path": "no.md"}),
    ],
)
async def test_cancelling_a_tool_call_ends_its_walk(root, endless, name, arguments):
    """A tool call cancelled by its own or the run's time limit leaves no walk in the background."""
    tools = {tool.name: tool for tool in file_tools(root, ["notes/*.md"] if name == "ls" else [])}
    task = asyncio.create_task(tools[name].call(arguments))
    await asyncio.to_thread(endless.entered.wait, PATIENCE)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await asyncio.to_thread(endless.ended.wait, PATIENCE)

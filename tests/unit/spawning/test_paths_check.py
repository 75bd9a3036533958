"""Before a run starts, a thread looks for one file matching `paths`, and stops when its time is up."""

import asyncio
import os
from pathlib import Path

import pytest

from run_specialist.api.runner import Runner
from run_specialist.errors import UsageError
from run_specialist.providers.scripted import ScriptedProvider, calls
from run_specialist.safety.safe_files import Folder
from run_specialist.spawning.availability import check_paths
from run_specialist.specialist.fields import Specialist
from run_specialist.specialist.loader import load_text
from run_specialist.tools.files import file_tools
from run_specialist.tools.sandbox import Sandbox, files
from tests.slow_folders import PATIENCE, EndlessWalk, HeldWalk

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


async def test_a_literal_path_is_looked_up_without_listing_other_folders(root, monkeypatch):
    """A literal path is looked up directly; neither the root nor any other folder is listed."""
    seen = []
    listing = Folder.listing
    monkeypatch.setattr(Folder, "listing", lambda folder: seen.append(folder.path) or listing(folder))
    await checked(root, "missing, notes/deep, plans")
    await checked(root, "top.md")
    assert seen == [str(root / "notes" / "deep")]


async def test_without_paths_nothing_is_checked(root, endless):
    """Without `paths` the file tools may see everything, so nothing is checked."""
    file = load_text("---\nname: finder\ndescription: d\n---\nFind.\n", Path("finder.md"))
    assert await check_paths(file, file.specialist, root) == await check_paths(file, file.specialist, root / "none")
    assert not endless.entered.is_set()


async def test_the_event_loop_runs_during_the_walk(root, monkeypatch):
    """The event loop runs other tasks while a folder is being listed."""
    walk = HeldWalk(monkeypatch)
    task = asyncio.create_task(checked(root, "'*.md'"))
    await asyncio.to_thread(walk.entered.wait, PATIENCE)
    assert not task.done()
    walk.released.set()
    assert (await task)[1] == ()


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


async def test_an_unlistable_root_has_its_own_error(root):
    """An unlistable root gets its own error, different from the one for no matching file."""
    (root / ".gitignore").write_bytes(b"x\n" * 3_000_000)
    with pytest.raises(UsageError, match=r"paths: the root cannot be listed: \.gitignore: larger than 4 MB"):
        await checked(root, "'*.md'")


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


async def test_a_cancelled_search_leaves_its_index_to_the_next(root, monkeypatch):
    """The next search reuses a cancelled search's index; otherwise none would ever finish in a large root."""
    walk = HeldWalk(monkeypatch)
    search = {tool.name: tool for tool in file_tools(root / "plans")}["search"]
    task = asyncio.create_task(search.call({"query": "next"}))
    await asyncio.to_thread(walk.entered.wait, PATIENCE)
    task.cancel()
    await asyncio.wait([task])
    walk.released.set()
    assert "next.md:1: all about plans/next.md" in (await search.call({"query": "next"})).text
    assert walk.listings == 1


async def test_the_walk_runs_its_check_before_each_folder(root):
    """The walk runs its check before each folder, because listing very many empty folders also takes time."""
    for name in ("a", "b", "c"):
        (root / "empty" / name).mkdir(parents=True)
    checks = []
    assert list(files(Sandbox(root), "empty", check=lambda: checks.append(1))) == []
    assert len(checks) == 3 + 4

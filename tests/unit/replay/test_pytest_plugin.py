"""The pytest plugin: cheap to load, and the same difference as that of the command."""

import asyncio
import subprocess
import sys

import pytest

from run_specialist.api.once import run_sync
from run_specialist.replay.cassette_lines import cassette_text, fit_for_file
from run_specialist.replay.from_store import cassette_of
from tests.journals import load

FINDER = "---\nname: finder\ndescription: Finds notes.\ntool_calls_limit: 3\npaths: notes\n---\nYou find notes.\n"


@pytest.fixture
def recorded(tmp_path):
    """Return the folder of a project with a specialist, a note and the cassette of a run."""
    for folder in (".git", "specialists", "notes"):
        (tmp_path / folder).mkdir()
    (tmp_path / "notes/owls.md").write_text("# Owls\n\nOwls eat mice.\n")
    (tmp_path / "specialists/finder.md").write_text(FINDER)
    store = f"{tmp_path}/runs.db"
    finder = tmp_path / "specialists/finder.md"
    run_sync(str(finder), "What do owls eat?", root=tmp_path, model="offline", store=store)
    cassette = fit_for_file(cassette_of(load(f"sqlite:///{store}")), tmp_path)
    (tmp_path / "one.json").write_text(cassette_text(cassette))
    return tmp_path


def test_c5_loading_the_plugin_imports_nothing_heavy():
    """A project that does not use the fixture pays for no other module of this package, and for no library."""
    code = (
        "import pytest, sys; before = {*sys.modules}; import run_specialist.replay.pytest_plugin; "
        "print(*sorted({*sys.modules} - before))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    ours = {"run_specialist", "run_specialist.replay", "run_specialist.replay.pytest_plugin"}
    assert {*done.stdout.split()} <= ours


def test_c5_the_fixture_returns_the_outcome(recorded, specialist_replay):
    """Also from a test that runs in an event loop, and with live tools."""
    outcome = specialist_replay(recorded / "one.json", root=recorded)
    assert (outcome.status, outcome.evidence[0].quote) == ("answered", "Owls eat mice.")

    async def test():
        return specialist_replay(recorded / "one.json", root=recorded, dir=recorded / "specialists", tools="live")

    assert asyncio.run(test()).answer == outcome.answer


def test_c5_a_difference_fails_the_test(recorded, specialist_replay):
    """The message is the block of the command; so is that of a file that cannot be read."""
    (recorded / "specialists/finder.md").write_text(FINDER.replace("find notes", "find all notes"))
    with pytest.raises(pytest.fail.Exception) as failed:
        specialist_replay(recorded / "one.json", root=recorded)
    assert failed.value.pytrace is False
    lines = str(failed.value).splitlines()
    assert lines[0].endswith("one.json differs at request 1 of 3: system prompt")
    assert "+You find all notes." in lines
    with pytest.raises(pytest.fail.Exception, match="No such file"):
        specialist_replay(recorded / "none.json", root=recorded)

"""A process that is killed while it replaces a file: the run is resumed, and its change is taken back."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from run_specialist import prompts
from run_specialist.api.runner import Runner
from run_specialist.cli import manage
from tests.scripted_provider import ScriptedProvider, calls, says

pytestmark = pytest.mark.anyio
FILE = "---\nname: fixer\ndescription: Fixes.\ntools: read, edit\nwritable: docs/\n---\nYou fix.\n"
EDIT = ("edit", {"path": "docs/a.md", "old": "two", "new": "2"})
READ = ("read", {"path": "docs/a.md"})
PROGRAM = """
import asyncio, os, signal, sys
from pathlib import Path
from run_specialist.safety import safe_files
from tests.crash.test_killed_edits import run_until_killed

def replacing(*names, **where):
    if sys.argv[2] == "after" or not where:
        os.rename(*names, **where)
    if where:
        os.kill(os.getpid(), signal.SIGKILL)

safe_files.os.replace = replacing
asyncio.run(run_until_killed(Path(sys.argv[1])))
"""


def runner_of(root, *script):
    """Return a runner with a script, and a store beside the root."""
    return Runner(root=root, provider=ScriptedProvider(script), store=f"sqlite:///{root}.db", trust=True)


async def run_until_killed(root):
    """Read a file and edit it."""
    async with runner_of(root, calls(READ), calls(EDIT, first_id=2)) as runner:
        await runner.run("fixer", "Fix it.")


@pytest.mark.parametrize(
    ("moment", "content", "files"),
    [("before", "one\ntwo\n", 2), pytest.param("after", "one\n2\n", 1, marks=pytest.mark.exhaustive)],
)
async def test_a_killed_edit_is_not_repeated_and_can_be_undone(tmp_path, monkeypatch, moment, content, files):
    """The model learns that it is not known what was changed, and must read the file again; undo knows both states."""
    root = tmp_path / "root"
    for name, text in {".git/x": "", "docs/a.md": "one\ntwo\n", "specialists/fixer.md": FILE}.items():
        (root / name).parent.mkdir(parents=True)
        (root / name).write_text(text)
    program = [sys.executable, "-c", PROGRAM, str(root), moment]
    monkeypatch.chdir(root)
    here = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    killed = await asyncio.to_thread(subprocess.run, program, env=here, capture_output=True, check=False)
    assert killed.returncode == -9, killed.stderr.decode()
    assert ((root / "docs/a.md").read_text(), len([*(root / "docs").iterdir()])) == (content, files)
    async with runner_of(root, calls(EDIT, first_id=3), says("done")) as runner:
        run = await runner.resume("last")
        outcome = await run.outcome()
    results = [block for message in run.transcript for block in message.content if block["type"] == "tool_result"]
    assert results[1]["content"].startswith(prompts.PROCESS_ENDED.format(tool="edit"))
    assert "docs/a.md was not read yet in this run; read it first" in results[2]["content"]
    assert (outcome.status, (root / "docs/a.md").read_text()) == ("answered", content)
    words = ["undo", outcome.run_id, "--store", f"sqlite:///{root}.db", "--root", str(root)]
    assert CliRunner().invoke(manage.app, words).exit_code == 0
    assert [(path.name, path.read_text()) for path in (root / "docs").iterdir()] == [("a.md", "one\ntwo\n")]

"""The replays of docs/stored-runs.md: the commands are executed."""

import shlex
import shutil

import pytest
from typer.testing import CliRunner

from run_specialist.cli import ask, manage
from run_specialist.store.location import VARIABLE
from tests.docs.markdown import ROOT, STORED, blocks


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Change into a copy of this project's notes and specialists, with an empty home and a store."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv(VARIABLE, str(tmp_path / "runs.db"))
    root = tmp_path / "project"
    (root / ".git").mkdir(parents=True)
    for folder in ("thoughts", "specialists"):
        shutil.copytree(ROOT / folder, root / folder)
    monkeypatch.chdir(root)


@pytest.mark.usefixtures("project")
def test_c1_the_documented_commands_replay_the_same():
    """Each command succeeds; replays say that nothing differs."""
    (text,) = (text for text in blocks(STORED, "console") if "specialists replay" in text)
    for line in text.splitlines():
        name, *words = shlex.split(line)
        done = CliRunner().invoke(ask.app if name == "run-specialist" else manage.app, words, catch_exceptions=False)
        assert done.exit_code == 0, done.output
        assert name == "run-specialist" or " replays the same: " in done.stdout

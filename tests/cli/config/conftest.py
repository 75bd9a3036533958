"""Fixtures for the tests of config files: files of the project and of the user, and a run that they affect."""

import pytest

from run_specialist.api.runner import Runner

QUESTION = ("what", "do", "owls", "eat?")


@pytest.fixture
def project_file(notes):
    """Return a function that writes the table of the project."""

    def write(*lines):
        (notes / "pyproject.toml").write_text("\n".join(["[tool.run-specialist]", *lines, ""]))

    return write


@pytest.fixture
def user_file(notes):
    """Return a function that writes the user's file."""

    def write(*lines):
        path = notes.parent / "home/.config/run-specialist/config.toml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join([*lines, ""]))
        return path

    return write


@pytest.fixture
def prepared(call, monkeypatch):
    """Return a function that asks offline with options, and returns the prepared run."""
    runs, prepare = [], Runner.prepare

    async def recorded(*arguments, **options):
        runs.append(await prepare(*arguments, **options))
        return runs[-1]

    def ask(*options):
        monkeypatch.setattr(Runner, "prepare", recorded)
        result = call("finder", *QUESTION, *(options or ("--model", "offline")))
        assert result.exit_code == 0, result.output
        return runs[-1].job

    return ask

"""The option --version of both commands."""

import tomllib

import pytest
from typer.testing import CliRunner

from run_specialist.cli import ask, manage
from tests.docs.markdown import ROOT

HERE = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]


@pytest.mark.parametrize("app", [ask.app, manage.app])
def test_both_commands_print_name_and_version(app):
    """Neither a specialist nor a command is needed."""
    result = CliRunner().invoke(app, ["--version"], catch_exceptions=False)
    assert (result.exit_code, result.stdout, result.stderr) == (0, f"run-specialist {HERE}\n", "")

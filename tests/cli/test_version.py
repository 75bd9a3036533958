"""The option --version of both commands."""

import tomllib
from importlib.metadata import PackageNotFoundError

import pytest
from typer.testing import CliRunner

from run_specialist import version
from run_specialist.cli import ask, manage
from tests.docs.markdown import ROOT

HERE = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]


@pytest.mark.parametrize("app", [ask.app, manage.app])
def test_both_commands_print_name_and_version(app):
    """Neither a specialist nor a command is needed."""
    result = CliRunner().invoke(app, ["--version"], catch_exceptions=False)
    assert (result.exit_code, result.stdout, result.stderr) == (0, f"run-specialist {HERE}\n", "")


def _not_installed(_):
    raise PackageNotFoundError


def test_a_checkout_that_is_not_installed_has_its_version(monkeypatch, tmp_path):
    """The project file of the checkout is read; a project that only contains a copy of the package is not."""
    monkeypatch.setattr(version, "version", _not_installed)
    assert version.release() == HERE
    other = tmp_path / "pyproject.toml"
    monkeypatch.setattr(version, "_CHECKOUT", other)
    assert version.release() == "0"
    for text in ('[project]\nname = "other"\nversion = "9"\n', '[project]\nname = "run-specialist"\n', "[", ""):
        other.write_text(text)
        assert version.release() == "0"

"""The option --version of both commands."""

import subprocess
import sys
import tomllib

import pytest
from typer.testing import CliRunner

from run_specialist.cli import ask, manage
from tests.docs.markdown import ROOT
from tests.test_architecture import HEAVY

HERE = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]


@pytest.mark.parametrize("app", [ask.app, manage.app])
def test_both_commands_print_name_and_version(app):
    """Neither a specialist nor a command is needed."""
    result = CliRunner().invoke(app, ["--version"], catch_exceptions=False)
    assert (result.exit_code, result.stdout, result.stderr) == (0, f"run-specialist {HERE}\n", "")


def test_the_version_imports_no_heavy_libraries():
    """`--version` is as fast as `--help`."""
    code = (
        "import sys; sys.argv = ['run-specialist', '--version']\nfrom run_specialist.cli import ask\n"
        "try:\n    ask.main()\nexcept SystemExit:\n    print(*{name.split('.')[0] for name in sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"run-specialist {HERE}\n")
    assert not set(done.stdout.split()) & set(HEAVY)

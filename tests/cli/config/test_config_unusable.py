"""Config files that are broken, ignored, hostile or missing."""

import subprocess
import sys

import pytest

from tests.cli.config.question import QUESTION
from tests.cli.specialists_command import call as manage


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize("words", [("list",), ("show", "finder"), ("check",), ("config",), ("mcp",)])
def test_a_broken_file_ends_each_command_with_2(write, call, project_file, words):
    """One line for each problem, with its place; SPECIALIST_CONFIG=none is the way out."""
    write("finder")
    project_file("modle = 'haiku'", "strict = 3")
    result = manage(*words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.partition(": ")[2].splitlines() == [
        "pyproject.toml:2: modle: unknown key; did you mean model?",
        "pyproject.toml:3: strict: must be true or false, got 3",
        "or set SPECIALIST_CONFIG=none to read no config file",
    ]
    assert call("finder", *QUESTION, "--model", "offline").exit_code == 2
    assert call("finder", *QUESTION, "--model", "offline", env={"SPECIALIST_CONFIG": "none"}).exit_code == 0


@pytest.mark.parametrize("words", [("list",), ("show", "finder"), ("config",), ("runs",), ("map", "finder", "q")])
def test_a_key_of_very_many_parts_is_one_line(write, store, project_file, user_file, words):
    """A hostile key in the file of the project, or of the user, ends no command with a traceback."""
    write("finder")
    project_file("model" + ".a" * 1000 + " = 1")
    result = manage(*words)
    if words != ("runs",):
        assert result.exit_code == 2
        assert "pyproject.toml:2: invalid TOML: a key has more than 50 parts\n" in result.stderr
    user_file("model" + ".a" * 1000 + " = 1")
    result = manage(*words)
    assert result.exit_code == 2
    assert "config.toml:1: invalid TOML: a key has more than 50 parts\n" in result.stderr


def test_the_text_of_a_config_file_cannot_control_the_terminal(project_file):
    """Names and values are escaped in errors."""
    project_file('"a\\u001b]0;owned\\u0007" = 1', 'model = "b\\u001bc"', 'landing = "\\u001b[2J"')
    told = manage("config").stderr
    assert ("\x1b" in told, told.count("pyproject.toml:")) == (False, 3)


def test_without_a_table_nothing_is_parsed(write, notes):
    """A start without config files imports neither the TOML parser nor the folders of the system."""
    write("finder")
    (notes / "pyproject.toml").write_text("[project]\nname = 'other'\n")
    code = (
        "import sys; sys.argv = ['run-specialist', 'finder', 'What?', '--store', 'none', '-q', '--model', 'offline']\n"
        "from run_specialist.cli import ask\ntry:\n    ask.main()\nexcept SystemExit:\n    print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    modules = done.stdout.split()
    assert "run_specialist.api.config_files" in modules
    assert not {"tomllib", "platformdirs"} & set(modules)


def test_an_ignored_file_is_a_warning(write, call, notes):
    """A run says why the project's file does not apply, and continues."""
    write("finder")
    (notes / "pyproject.toml").symlink_to("/etc/passwd")
    told = "pyproject.toml: ignored, cannot be read: it leads outside the project"
    result = call("finder", *QUESTION, "--model", "offline")
    assert (result.exit_code, f"warning: {told}" in result.stderr) == (0, True)
    assert told in manage("config").stdout

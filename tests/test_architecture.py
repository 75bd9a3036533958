"""The architecture: imports only go down the layers, and heavy libraries are imported late."""

import subprocess
import sys

import pytest
from importlinter.cli import EXIT_STATUS_SUCCESS, lint_imports

HEAVY = ("anthropic", "asyncio", "httpx2", "pydantic", "yaml", "rich", "sqlite3", "jiter", "mcp", "uvicorn")


def test_imports_follow_the_layers_without_cycles(capsys):
    """The import contracts of pyproject.toml hold: layers, and no cycles at any depth."""
    assert lint_imports(no_logo=True, no_cache=True) == EXIT_STATUS_SUCCESS, capsys.readouterr().out


def modules_after(code: str) -> set[str]:
    """Return the modules that are loaded in a new interpreter after it has run some code."""
    script = f"import sys\n{code}\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split())


@pytest.mark.parametrize(("command", "words"), [("ask", []), ("manage", []), ("manage", ["mcp"])])
def test_help_imports_no_heavy_libraries(command, words):
    """`--help` imports the parser and little else."""
    code = f"import run_specialist.cli.{command} as c\ntry: c.app({[*words, '--help']})\nexcept SystemExit: pass\n"
    assert not modules_after(code) & set(HEAVY)


@pytest.mark.exhaustive
def test_preparing_an_offline_run_does_not_import_the_sdk():
    """The SDK is imported only for a request: a program that prepares offline runs never loads it."""
    assert "anthropic" not in modules_after("import run_specialist.api.runner, run_specialist.providers.anthropic")


@pytest.mark.exhaustive
def test_a_run_imports_no_tool_that_its_file_does_not_ask_for():
    """The sandbox of commands and the reading of pages are imported only for a file that names these tools."""
    tools = {"run_specialist.tools.shell.tool", "run_specialist.tools.web"}
    assert not modules_after("import run_specialist.api.runner") & tools


def test_a_list_in_a_pipe_imports_no_styles_and_nothing_that_only_a_run_needs():
    """`specialists list` imports neither rich's console nor providers, tools and events."""
    code = "import run_specialist.cli.manage as c\ntry: c.app(['list'])\nexcept SystemExit: pass\n"
    unneeded = "rich.console run_specialist.providers.anthropic run_specialist.tools.base run_specialist.record.events"
    assert not modules_after(code) & {*unneeded.split()}

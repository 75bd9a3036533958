"""`--trust`: programs and modules named in a project's file are refused until the user allows them, once."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from run_specialist.cli import manage
from tests.projects import project


@pytest.fixture
def app(notes, write):
    """A project with a module, and a specialist that names its function."""
    with project(notes) as made:
        made.write("PKG/tools.py", "def lookup(word: str) -> str:", "    return word")
        made.finder = write("finder", f"python_tools: ['{made.package}.tools:lookup']", "tool_calls_limit: 1")
        yield made


def specialists(*arguments):
    """Run the command `specialists`; return exit code, stdout and stderr."""
    result = CliRunner().invoke(manage.app, arguments, catch_exceptions=False)
    return result.exit_code, result.stdout, result.stderr


def test_trust_is_remembered_until_the_module_changes(app, ask):
    """An untrusted file is refused with one line; `--trust` is remembered until the module changes."""
    code, out, err = ask()
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert f"{app.finder}:4:1: python_tools: would import {app.package}.tools" in err
    assert "--trust" in err
    for flags in (["--trust"], []):
        code, out, err = ask(*flags)
        assert (code, err, "mice" in out) == (0, "", True)
    app.write("PKG/tools.py", "def lookup() -> str:", "    return ''")
    assert ask()[0] == 2


def test_trust_says_what_it_allows(app, call, write):
    """One line on standard error for each import, tool and model that was not allowed before; then none."""
    lines = (f"python_tools: ['{app.package}.tools:lookup']", "tools: read, edit", "writable: [notes]")
    finder = write("finder", *lines, "tool_calls_limit: 1")
    question = ("finder", "What do owls eat?", "--model", "offline", "--trust")
    first = call(*question)
    where = app.root / app.package / "tools.py"
    rest = "; remembered until it changes"
    told = [line.partition(": ")[2] for line in first.stderr.splitlines() if "--trust" in line]
    assert told == [
        f"{finder}:4:1: python_tools: --trust allows it to import {app.package}.tools ({where}){rest}",
        f"{finder}:5:1: tools: --trust allows it to change files: notes{rest}",
    ]
    again = call(*question)
    assert (first.exit_code, again.exit_code, "--trust" in again.stderr) == (0, 0, False)
    finder.write_text(finder.read_text() + "Changed.\n")
    told = specialists(
        "map",
        "finder",
        "--question",
        "What does {path} say?",
        "--files",
        "notes/*.md",
        "--trust",
        "--model",
        "offline",
        "--yes",
    )[2]
    assert told.count("--trust allows it to") == 2


def test_trust_says_which_model_of_the_project_it_allows(app, call):
    """A model of the project's config file is one line too."""
    (app.root / "pyproject.toml").write_text("[tool.run-specialist]\nmodel = 'openai:other'\n")
    told = call("finder", "What do owls eat?", "--trust").stderr
    assert "pyproject.toml:2: model: --trust allows it to send the questions and the tool results to a server" in told


def test_trust_does_not_apply_to_a_copy_of_the_project(app, ask, tmp_path, monkeypatch):
    """A copy must be allowed again, since the same file may import and start different files there."""
    assert ask("--trust")[0] == 0
    copy = tmp_path / "copy"
    app.root.rename(copy)
    monkeypatch.chdir(copy)
    assert ask()[0] == 2
    copy.rename(app.root)
    monkeypatch.chdir(app.root)
    assert ask()[0] == 0


def test_show_reports_trust_without_importing(app, ask, write):
    """`show` has a line on trust if the file needs it, and `trusted` in JSON, and imports nothing."""
    write("plain")
    assert "trusted" not in specialists("show", "plain")[1]
    assert json.loads(specialists("show", "plain", "--json")[1])["trusted"] is None
    code, out, _ = specialists("show", "finder")
    (line,) = [line for line in out.splitlines() if "trusted" in line]
    where = app.root / app.package / "tools.py"
    assert (
        line == f"not trusted: it would import {app.package}.tools ({where}); to allow this, run it once with --trust"
    )
    assert (code, json.loads(specialists("show", "finder", "--json")[1])["trusted"]) == (0, False)
    assert ask("--trust")[0] == 0
    assert f"trusted: it may import {app.package}.tools ({where})\n" in specialists("show", "finder")[1]
    assert json.loads(specialists("show", "finder", "--json")[1])["trusted"] is True


def test_show_reports_a_missing_module(app, write):
    """`show` reports a missing module as not trusted and shows the rest."""
    write("finder", "python_tools: [nowhere.tools:lookup]")
    code, out, _ = specialists("show", "finder")
    assert (code, "not trusted: " in out, "no module nowhere" in out) == (0, True, True)


def test_resume_requires_trust_too(app, ask, monkeypatch, tmp_path):
    """A run whose function changed is resumed only with `--trust`."""
    store = str(tmp_path / "runs.db")
    assert ask("--trust", "--store", store)[0] == 0
    app.write("PKG/tools.py", "# changed", "def lookup(word: str) -> str:", "    return word")
    arguments = ["resume", "last", "And toads?", "--tool-calls-limit", "4", "--store", store, "--quiet"]
    code, out, err = specialists(*arguments)
    assert (code, out) == (2, "")
    assert "python_tools: would import" in err
    assert specialists(*arguments, "--trust")[0] == 0
    assert Path(store).is_file()


@pytest.mark.parametrize("flag", ["--json", "--events", "--quiet"])
def test_output_of_a_module_goes_to_stderr(app, call, flag):
    """Output of the module goes to standard error, so that standard output stays machine-readable."""
    app.write("PKG/tools.py", "print('loading')", "def lookup(word: str) -> str:", "    return word")
    result = call("finder", "What do owls eat?", "--model", "offline", "--trust", flag)
    assert result.exit_code == 0
    assert "loading" in result.stderr.splitlines()
    if flag == "--json":
        assert json.loads(result.stdout)["specialist"] == "finder"
    elif flag == "--events":
        events = [json.loads(line)["event"] for line in result.stdout.splitlines()]
        assert (events[0], events[-1]) == ("started", "finished")
    else:
        assert "loading" not in result.stdout
        assert "mice" in result.stdout

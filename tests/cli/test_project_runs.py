"""Runs of two projects in one store, asked, resumed, searched and tuned by the commands."""

import json
import shutil

import pytest

from tests.cli.specialists_command import call as manage


@pytest.fixture
def other(notes, write, store, call, monkeypatch):
    """Ask a question here and then in a copy of the project, stay here, and return the folder of the copy."""
    write("finder", "tool_calls_limit: 1", "tools: grep")
    copy = notes.parent / "copy"
    shutil.copytree(notes, copy)
    offline = ("--model", "offline", "--quiet")
    assert call("finder", "What do owls eat?", *offline).exit_code == 0
    monkeypatch.chdir(copy)
    assert call("finder", "Where do toads sleep?", *offline, "--root", "notes").exit_code == 0
    monkeypatch.chdir(notes)
    return copy


def questions(*arguments):
    """Return the questions of the listed runs."""
    return [run["question"] for run in json.loads(manage("runs", "--json", *arguments).stdout)["runs"]]


@pytest.mark.exhaustive
def test_a_run_below_the_root_belongs_to_the_project(other, notes, monkeypatch):
    """A run with `--root notes` is one of the project, which lists its own; `resume last --root` means its last one."""
    assert questions() == ["What do owls eat?"]
    assert questions("--all-projects") == ["Where do toads sleep?", "What do owls eat?"]
    monkeypatch.chdir(other / "notes")
    told = json.loads(manage("runs", "--json").stdout)
    assert [run["question"] for run in told["runs"]] == ["Where do toads sleep?"]
    assert (told["project"], told["runs"][0]["project"]) == (str(other), str(other))
    assert told["runs"][0]["duration_s"] > 0
    monkeypatch.chdir(notes)
    asked = manage("resume", "last", "And bats?", "--root", str(other), "--tool-calls-limit", "4", "--json")
    assert asked.exit_code == 0
    assert questions("--search", "bats", "--root", str(other)) == ["And bats?"]


@pytest.mark.exhaustive
def test_resuming_the_last_run_of_the_project(other):
    """`resume last` resumes this project's run; then its new limit distinguishes it, and its new question is found."""
    tuned = json.loads(manage("tune", "finder", "--json").stdout)
    assert (tuned["runs"], tuned["changed_limits"], len(tuned["versions"])) == (1, {}, 1)
    asked = manage("resume", "last", "And what do badgers do?", "--tool-calls-limit", "4", "--json")
    assert (asked.exit_code, json.loads(asked.stdout)["tool_calls"]["limit"]) == (0, 4)
    assert questions("--search", "BADGERS owls") == ["And what do badgers do?"]
    assert questions("--search", "badgers", "--root", str(other)) == []
    status = json.loads(asked.stdout)["status"]
    tuned = json.loads(manage("tune", "finder", "--json").stdout)
    assert (tuned["runs"], tuned["changed_limits"]) == (0, {status: 1})
    everywhere = json.loads(manage("tune", "finder", "--all-projects", "--json").stdout)
    assert (everywhere["runs"], everywhere["changed_limits"]) == (1, {status: 1})


@pytest.mark.exhaustive
def test_an_edited_file_is_another_version(other, write):
    """After an edit earlier runs do not count, unless `--all-versions` is given; both are shown."""
    write("finder", "tool_calls_limit: 2", "tools: grep")
    assert manage("tune", "finder").stdout.startswith(
        "Too few runs to suggest a limit: 0 runs can be judged, and at least 10 are required.\n\n"
        "finder  0 runs\nNot counted: 1 run of other versions of its file.\n"
    )
    every = manage("tune", "finder", "--all-versions").stdout
    assert "finder  1 run, " in every
    assert "Not counted" not in every

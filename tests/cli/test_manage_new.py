"""The command `specialists new`."""

import json
import os
from pathlib import Path

import pytest

from tests.cli.specialists_command import GOOD, call, program


def test_a_new_file_passes_a_strict_check(project: Path) -> None:
    """A file written by `new` passes a strict check, contains the given values, and has a prompt."""
    result = call(
        "new", "note-finder", "--description", "Finds notes: all #1", "--tools", "read, grep", "--model", "haiku"
    )
    assert (result.exit_code, result.stdout) == (0, "specialists/note-finder.md\n")
    assert call("check", "--strict", "specialists/note-finder.md").exit_code == 0
    shown = json.loads(call("show", "note-finder", "--json").stdout)
    assert (shown["description"], shown["tools"], shown["model"]) == ("Finds notes: all #1", ["read", "grep"], "haiku")
    assert shown["tool_calls_limit"] == 30
    assert "Finds notes: all #1." in shown["prompt"]


def test_new_keeps_existing_files_without_force(project: Path) -> None:
    """An existing file is overwritten only with `--force`."""
    refused = call("new", "finder", "--description", "d")
    assert refused.exit_code == 2
    assert "--force" in refused.stderr
    assert (project / "specialists" / "finder.md").read_text() == GOOD
    assert call("new", "finder", "--description", "d", "--force").exit_code == 0
    assert (project / "specialists" / "finder.md").read_text() != GOOD


@pytest.mark.parametrize("name", ["../up", "Upper", "a b", "", "a--b", "-a", "x" * 65, "a\nb", "ä"])
def test_new_refuses_bad_names(project: Path, name: str) -> None:
    """Only names that are safe on every file system and in every shell are accepted."""
    result = call("new", "--description", "d", "--", name)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "invalid name" in result.stderr
    assert [path.name for path in (project / "specialists").iterdir()] == ["finder.md"]


@pytest.mark.parametrize(
    ("flag", "value", "said"),
    [
        ("--tool-calls-limit", "twelve", "must be an integer of at least 0, or none, got"),
        ("--tool-calls-limit", "-1", "must be an integer of at least 0, or none, got"),
        ("--tools", "Bash", "tools: not available here: Bash"),
        ("--paths", "../x", "paths: must be folders or globs under the root"),
        ("--description", " ", "description: "),
    ],
)
def test_new_refuses_values_that_fail_a_strict_check(project: Path, flag: str, value: str, said: str) -> None:
    """An invalid value is refused before anything is written."""
    flags = {"--description": "d"} | {flag: value}
    result = call("new", "fresh", *(part for pair in flags.items() for part in pair))
    assert result.exit_code == 2
    assert said in result.stderr
    assert not (project / "specialists" / "fresh.md").exists()


def test_new_accepts_none_and_a_destination_folder(project: Path, tmp_path: Path) -> None:
    """`none` removes the limit; `--dir` is the destination folder, which is created if missing."""
    result = call("new", "free", "--description", "d", "--tool-calls-limit", "none", "--dir", str(tmp_path / "x" / "y"))
    assert result.exit_code == 0
    assert "tool_calls_limit: none" in (tmp_path / "x" / "y" / "free.md").read_text()


def test_new_without_a_terminal_requires_its_flags(project: Path) -> None:
    """Without a terminal to prompt on, the error names the missing flag."""
    result = call("new", "fresh")
    assert result.exit_code == 2
    assert "--description is required" in result.stderr


def test_new_prompts_on_a_terminal(project: Path) -> None:
    """On a terminal, `new` prompts for missing values and accepts the default limit."""
    ours, theirs = os.openpty()
    os.write(ours, b"when asked\n\n")
    done = program("new", "asked", stdin=theirs)
    assert (done.returncode, done.stdout.strip()) == (0, "specialists/asked.md")
    assert "description: when asked\ntool_calls_limit: 30\n" in (project / "specialists" / "asked.md").read_text()

"""The command `specialists new`."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.history.commands import on_terminal
from tests.cli.specialists_command import GOOD, MAIN, call, program
from tests.forked_program import ForkedProgram


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
        ("--tools", "Painter", "tools: not available here: Painter"),
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


def test_new_without_a_terminal_writes_placeholders_that_check_reports(project: Path) -> None:
    """Without a terminal and a description, the file has placeholders, each a problem with file and line."""
    result = call("new", "fresh")
    assert (result.exit_code, result.stdout) == (0, "specialists/fresh.md\n")
    assert "replace the lines with TODO" in result.stderr
    path = project / "specialists" / "fresh.md"
    lines = path.read_text().splitlines()
    checked = call("check", "specialists/fresh.md")
    where = [line.split(": ")[0] for line in checked.stdout.splitlines()[:-1]]
    described = next(number for number, line in enumerate(lines, 1) if line.startswith("description: "))
    purpose = next(number for number, line in enumerate(lines, 1) if line.startswith("TODO"))
    assert where == [f"specialists/fresh.md:{described}:14", f"specialists/fresh.md:{purpose}:1"]
    assert (checked.exit_code, call("check", "--strict", "specialists/fresh.md").exit_code) == (0, 2)
    filled = path.read_text().replace(lines[described - 1], "description: Finds notes.")
    path.write_text(filled.replace(lines[purpose - 1], "You find notes."))
    assert call("check", "--strict", "specialists/fresh.md").exit_code == 0


def answered(project: Path, *answers: str, flags: tuple[str, ...] = ()) -> tuple[subprocess.CompletedProcess[str], str]:
    """Answer the questions of `new` on a terminal; return the process and the front matter of the file, or nothing."""
    ours, theirs = os.openpty()
    os.write(ours, "".join(f"{answer}\n" for answer in answers).encode())
    try:
        done = program("new", "asked", *flags, stdin=theirs)
    finally:
        os.close(theirs)
        os.close(ours)
    path = project / "specialists" / "asked.md"
    return done, path.read_text().split("---\n")[1] if path.exists() else ""


def test_new_prompts_on_a_terminal(project: Path) -> None:
    """On a terminal, `new` asks for each value; the default of each question is accepted by Enter."""
    done, front = answered(project, "when asked", "", "", "", "")
    assert (done.returncode, done.stdout) == (0, "specialists/asked.md\n")
    assert front == "name: asked\ndescription: when asked\ntool_calls_limit: 30\n"


@pytest.mark.exhaustive
def test_new_asks_for_tools_paths_and_model(project: Path) -> None:
    """The answers become front matter; a flag replaces its question."""
    (project / "docs").mkdir()
    done, front = answered(project, "when asked", "12", "read, grep", "docs, src/**/*.py", flags=("--model", "haiku"))
    assert done.returncode == 0
    assert "Model" not in done.stderr
    assert front == (
        "name: asked\ndescription: when asked\ntools: read, grep\npaths: docs, src/**/*.py\nmodel: haiku\n"
        "tool_calls_limit: 12\n"
    )


def test_new_asks_again_after_a_wrong_answer(project: Path) -> None:
    """Each wrong answer has a line that says why, and the same question again."""
    done, front = answered(project, "", "when asked", "twelve", "12", "raed", "read", "../x", "docs", "claude-x-9")
    assert done.returncode == 0
    assert done.stderr.count("When should it be used?") == 2
    assert "must be an integer of at least 0, or none, got twelve" in done.stderr
    assert "not available here: raed; did you mean read?" in done.stderr
    assert "must be folders or globs under the root" in done.stderr
    assert front.endswith("tools: read\npaths: docs\nmodel: claude-x-9\ntool_calls_limit: 12\n")


def test_new_validates_the_name_before_it_asks(project: Path) -> None:
    """A wrong name, or one that is taken, is refused before any question; a similar valid name is shown."""
    ours, theirs = os.openpty()
    refused = program("new", "My Finder", stdin=theirs)
    taken = program("new", "finder", stdin=theirs)
    os.close(theirs)
    os.close(ours)
    assert [done.returncode for done in (refused, taken)] == [2, 2]
    assert "for example my-finder" in refused.stderr
    assert "already exists" in taken.stderr
    assert "When" not in refused.stderr + taken.stderr


@pytest.mark.exhaustive
def test_new_leaves_nothing_behind_at_the_end_of_the_input(project: Path) -> None:
    """Ctrl-D at a question: one line, exit code 130, and no file."""
    shown, code = on_terminal("new", "asked", typed=b"when asked\n12\n\x04")
    assert code == 130
    assert shown.endswith("specialists: interrupted\n")
    assert [path.name for path in (project / "specialists").iterdir()] == ["finder.md"]


@pytest.mark.exhaustive
def test_new_leaves_nothing_behind_when_it_is_interrupted(project: Path) -> None:
    """Ctrl-C at a question: one line, exit code 130, and no file."""
    ours, theirs = os.openpty()
    os.write(ours, b"when asked\n12\n")
    command = [sys.executable, "-W", "error", "-c", MAIN, "new", "asked"]
    with ForkedProgram(command, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as asking:
        seen = b""
        while b"Tools" not in seen:
            seen += asking.stderr.read1()
        asking.send_signal(signal.SIGINT)
        printed, told = asking.communicate(timeout=60)
    os.close(theirs)
    os.close(ours)
    assert (asking.returncode, printed.strip()) == (130, b"")
    assert told.endswith(b"specialists: interrupted\n")
    assert [path.name for path in (project / "specialists").iterdir()] == ["finder.md"]

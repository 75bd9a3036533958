"""The command `specialists edit`."""

import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from run_specialist.specialist.project import packaged
from tests.cli.specialists_command import GOOD, MAIN, call, program
from tests.forked_program import ForkedProgram

TOUCH = "import sys, pathlib; p = pathlib.Path(sys.argv[-1]); p.write_text(p.read_text().replace({!r}, {!r}))"


@pytest.fixture(autouse=True)
def no_editor(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the user's editors."""
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.delenv("EDITOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")


def replacing(old: str, new: str) -> str:
    """Return the command of an editor that replaces a text."""
    return shlex.join([sys.executable, "-c", TOUCH.format(old, new)])


def edit(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command as a program, without a terminal."""
    return program("edit", *arguments, stdin=subprocess.DEVNULL, env=os.environ | environment)


def test_edit_opens_the_file_by_a_shell_that_never_reads_its_path_and_checks_it(project: Path, tmp_path: Path) -> None:
    """Its problems and code are those of `check`; arguments, quotes and variables of the editor's command work."""
    done = edit("finder", EDITOR=replacing("12", "twelve"))
    assert "tool_calls_limit: twelve" in (project / "specialists" / "finder.md").read_text()
    checked = program("check", "specialists/finder.md")
    assert (done.returncode, done.stdout) == (checked.returncode, checked.stdout)
    assert done.returncode == 2
    assert "specialists/finder.md:5:19: error: tool_calls_limit: must be an integer" in done.stdout
    repaired = edit("specialists/finder.md", EDITOR=replacing("twelve", "7"))
    assert (repaired.returncode, repaired.stdout) == (0, "1 file: 1 ok\n")
    odd = project / "specialists" / "a b$(touch harmed);'x.md"
    odd.write_text(GOOD)
    said = tmp_path / "said"
    script = tmp_path / "my editor"
    script.write_text(f"#!/bin/sh\nprintf '%s\\n' \"$@\" > {said}\n")
    script.chmod(0o755)
    done = edit(str(odd), EDITOR="'$WHERE/my editor' --wait -n".replace("'", '"'), WHERE=str(tmp_path))
    assert done.returncode == 0
    assert said.read_text().splitlines() == ["--wait", "-n", str(odd)]
    assert not list(project.rglob("harmed"))


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("editor", "said"),
    [
        ("false", "the editor false exited with code 1"),
        ("kill -9 $$; :", "was ended by signal 9"),
        ("no-such-editor", "127"),
    ],
)
def test_an_editor_that_fails_is_named(project: Path, editor: str, said: str) -> None:
    """The last line names the editor, how it ended, and the file, which is kept; so does the one without an editor."""
    for environment in ({}, {"EDITOR": "  "}):
        done = edit("finder", **environment)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
        assert f"set VISUAL or EDITOR, for example to `nano` or `code --wait`; the file is {project}" in done.stderr
    done = edit("finder", EDITOR=editor)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr.splitlines()[-1]
    assert "finder.md" in done.stderr.splitlines()[-1]
    assert (project / "specialists" / "finder.md").read_text() == GOOD


@pytest.mark.exhaustive
def test_a_packaged_specialist_is_copied_on_request(project: Path) -> None:
    """One of the package is never changed: `--copy` edits a copy, which goes if the editor fails before a change."""
    path = project / "specialists" / "fact-checker.md"
    assert (edit("fact-checker", "--copy", EDITOR="false").returncode, path.exists()) == (2, False)
    failing = f'{replacing("name: fact-checker", "name: mine")} "$@"; false'
    done = edit("fact-checker", "--copy", EDITOR=failing)
    assert (done.returncode, str(path) in done.stderr, "name: mine" in path.read_text()) == (2, True, True)
    path.unlink()
    original = (packaged() / "fact-checker.md").read_bytes()
    refused = edit("fact-checker", EDITOR=replacing("tools:", "tools :"))
    assert refused.returncode == 2
    assert "is included in this package; use --copy to edit a copy, specialists/fact-checker.md" in refused.stderr
    assert not (project / "specialists" / "fact-checker.md").exists()
    done = edit("fact-checker", "--copy", EDITOR=replacing("description:", "turns_limit: 9\ndescription:"))
    assert (done.returncode, done.stdout) == (0, "1 file: 1 ok\n")
    assert "turns_limit: 9" in (project / "specialists" / "fact-checker.md").read_text()
    assert (packaged() / "fact-checker.md").read_bytes() == original
    done = edit("fact-checker", EDITOR="true")
    assert (done.returncode, done.stdout) == (0, "1 file: 1 ok\n"), "the copy is the nearest file"
    assert "not changed; if the editor is still open, use a command that waits" in done.stderr


@pytest.mark.exhaustive
@pytest.mark.parametrize(("answer", "copied"), [("\n", True), ("n\n", False)])
def test_the_copy_is_offered_on_a_terminal(project: Path, answer: str, copied: bool) -> None:
    """On a terminal a question offers the copy, with yes as its default."""
    ours, theirs = os.openpty()
    os.write(ours, answer.encode())
    done = program("edit", "fact-checker", stdin=theirs, env=os.environ | {"EDITOR": "true"})
    os.close(theirs)
    os.close(ours)
    assert "fact-checker is included in this package. Edit a copy, specialists/fact-checker.md? [Y/n]" in done.stderr
    assert (done.returncode, "nothing was opened" in done.stderr) == (0, not copied)
    assert (project / "specialists" / "fact-checker.md").exists() == copied


def test_a_copy_never_leaves_the_project(project: Path, tmp_path: Path) -> None:
    """If its folder is a link out of the project, nothing is copied; a folder or an unknown name is not opened."""
    (project / "specialists" / "odd.md").mkdir()
    said = call("edit", "specialists/odd.md", env={"EDITOR": "true"})
    assert (said.exit_code, "is not a regular file" in said.stderr) == (2, True)
    assert "did you mean finder?" in call("edit", "findr", env={"EDITOR": "true"}).stderr
    outside = tmp_path / "outside"
    (project / "specialists").rename(outside)
    (project / "specialists").symlink_to(outside)
    done = edit("fact-checker", "--copy", EDITOR="true")
    assert done.returncode == 2
    assert "cannot be written: it leads outside the project" in done.stderr
    assert not (outside / "fact-checker.md").exists()


@pytest.mark.exhaustive
def test_ctrl_c_is_left_to_the_editor(project: Path) -> None:
    """Ctrl-C in the editor does not end the command, which checks the file afterwards."""
    script = (
        "import signal, sys; signal.signal(2, lambda *_: sys.exit(print('got it'))); print('ready', flush=True); "
        "signal.pause()"
    )
    command = [sys.executable, "-W", "error", "-c", MAIN, "edit", "finder"]
    env = os.environ | {"EDITOR": f"exec {shlex.join([sys.executable, '-c', script])}"}
    with ForkedProgram(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env, start_new_session=True
    ) as editing:
        assert editing.stdout.readline() == "ready\n"
        os.killpg(editing.pid, signal.SIGINT)
        printed, told = editing.communicate(timeout=60)
    assert (editing.returncode, printed) == (0, "got it\n1 file: 1 ok\n")
    assert "interrupted" not in told

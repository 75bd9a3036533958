"""The commands with unwritable outputs: a full device, a pipe without a reader, a closed file descriptor."""

import os
import subprocess
import sys

import pytest

from tests.forked_program import run_forked

PROGRAMS = {
    "run-specialist": "import sys; sys.argv[0] = 'run-specialist'; from run_specialist.cli.ask import main; main()",
    "specialists": "import sys; sys.argv[0] = 'specialists'; from run_specialist.cli.manage import main; main()",
}
COMMANDS = {
    "help": ["run-specialist", "--help"],
    "list": ["specialists", "list"],
    "schema": ["specialists", "schema"],
    "runs": ["specialists", "runs"],
    "transcript": ["specialists", "transcript", "last"],
    "report": ["specialists", "report", "last", "--out", "-"],
    "answer": ["run-specialist", "finder", "What do owls eat?", "--model", "offline"],
    "json": ["run-specialist", "finder", "What do owls eat?", "--model", "offline", "--json"],
    "events": ["run-specialist", "finder", "What do owls eat?", "--model", "offline", "--events"],
}


@pytest.fixture
def run(call, write, monkeypatch, tmp_path):
    """Return a function that runs a command in a project with a stored run, with redirections of its outputs."""
    write("finder")
    monkeypatch.setenv("SPECIALIST_STORE", str(tmp_path / "runs.db"))
    assert call("finder", "What do owls eat?", "--model", "offline").exit_code == 0

    def run_it(name, redirected="", stdout=subprocess.PIPE):
        program, *arguments = [*COMMANDS.get(name, ["specialists", "no-such-command"])]
        command = [sys.executable, "-W", "error", "-c", PROGRAMS[program], *arguments]
        closed = tuple(number for number, how in ((1, ">&-"), (2, "2>&-")) if how in redirected.split())
        with open(os.devnull if not redirected else "/dev/full", "w") as full_device:  # noqa: PTH123 - a device
            outputs = {"stdout": stdout, "stderr": subprocess.PIPE}
            outputs |= {"stdout": full_device} if redirected.startswith(">/dev/full") else {}
            outputs |= {"stderr": full_device} if "2>/dev/full" in redirected else {}
            return run_forked(command, text=True, closed=closed, **outputs)

    return run_it


full = pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full on this system")  # noqa: PTH110 - a device


@pytest.mark.exhaustive(one_in=9)
@full
@pytest.mark.parametrize("name", COMMANDS)
def test_an_unwritable_stderr_does_not_change_the_exit_code(run, name):
    """With an unwritable stderr, the output on stdout is complete and the exit code is 0."""
    done = run(name, "2>/dev/full")
    assert done.returncode == 0
    assert done.stdout.endswith(("\n", "</html>"))


@pytest.mark.exhaustive(one_in=9)
@full
@pytest.mark.parametrize("name", COMMANDS)
def test_an_unwritable_stdout_is_exit_code_2(run, name):
    """An unwritable stdout is one line on stderr with exit code 2."""
    done = run(name, ">/dev/full")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "No space left on device: " in done.stderr


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("name", "redirected"),
    [*((name, ">&- 2>&-") for name in COMMANDS), ("answer", ">&-"), ("answer", "2>&-"), ("runs", ">&-")],
)
def test_a_closed_output_is_no_failure(run, name, redirected):
    """A closed output causes neither a failure nor a traceback."""
    done = run(name, redirected)
    assert done.returncode == 0
    assert "Traceback" not in done.stderr

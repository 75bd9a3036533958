"""How a command of `bash` ends: its result, and its end with the call, the run and the program."""

import asyncio
import os
import select
import signal
import subprocess
import sys
from contextlib import suppress

import pytest

from run_specialist.errors import ToolError
from run_specialist.tools.shell import process, system_sandbox
from run_specialist.tools.shell.process import SandboxedProcess
from run_specialist.tools.threads import in_thread
from tests.unit.tools.sandboxed_commands import (
    PATIENCE,
    Commands,
    needs_bubblewrap,
    processes_with,
    unique_mark,
    wait_for,
)

pytestmark = needs_bubblewrap


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Return a function that runs a command in the root of a small project."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "project").mkdir()
    return Commands(tmp_path / "project")


@pytest.mark.exhaustive(one_in=5)
@pytest.mark.parametrize(
    ("command", "text", "note"),
    [
        ("echo out; echo err >&2; echo out", "out\nerr\nout\n", "[exit code 0]"),
        ("exit 7", "", "[exit code 7]"),
        ("kill -9 $$", "", "[exit code 137]"),
        ("-x", "/bin/bash: line 1: -x: command not found\n", "[exit code 127]"),
        ("cat; read x || echo empty", "empty\n", "[exit code 0]"),
        ("printf 'a\\r\\nb\\rc\\033[31m\\0d\\377'", "a\nb\nc[31md\N{REPLACEMENT CHARACTER}", "[exit code 0]"),
        ("pwd | tail -c 8; whoami; echo $HOME $LANG $TERM", "project\nuser\n/tmp C.UTF-8 dumb\n", "[exit code 0]"),
        ("cd /tmp; echo x > y; cat y", "x\n", "[exit code 0]"),
        ("cat /tmp/y", "cat: /tmp/y: No such file or directory\n", "[exit code 1]"),
    ],
)  # fmt: skip
async def test_the_result_has_both_outputs_and_the_exit_code(run, command, text, note):
    """Also of commands that look like options, want input, print bytes, or need files of an earlier call."""
    output = await run(command)
    assert (output.text, output.note, output.is_error) == (text, note, False)


async def test_a_long_output_keeps_its_beginning_and_its_end(run):
    """The middle is left out, with the length of the whole."""
    output = await run("seq 100000", tool_result_limit=500)
    assert len(output.text) <= 500
    assert output.text.startswith("1\n2\n3\n")
    assert output.text.endswith("\n99999\n100000\n")
    assert "[... of 588,895 bytes only the beginning and the end are here ...]" in output.text


async def test_a_timeout_keeps_what_was_printed(run):
    """The command is stopped a little before the call would be given up."""
    mark = unique_mark()
    output = await run(f"echo begun; sleep 300; : {mark}", seconds=0.5)
    assert (output.text, output.note) == ("begun\n", "[stopped: it took more than 0.475 seconds]")
    assert output.is_error
    assert processes_with(mark) == []


async def test_a_cancelled_call_ends_its_processes(run):
    """As at Ctrl-C, and when the time of a run is up."""
    mark = unique_mark()
    work = asyncio.ensure_future(run(f"trap '' TERM; setsid sleep 300 & sleep 300; : {mark}"))
    await in_thread(lambda: wait_for(mark, 3))
    work.cancel()
    await asyncio.wait([work])
    assert work.cancelled()
    assert processes_with(mark) == []


PROGRAM = """
import asyncio, sys
from pathlib import Path
from tests.unit.tools.sandboxed_commands import Commands
asyncio.run(Commands(Path(sys.argv[1]))(f"(setsid nohup sleep 300 >/dev/null 2>&1 &) ; sleep 300; : {sys.argv[2]}"))
"""


@pytest.mark.exhaustive
def test_a_killed_program_leaves_no_process(run):
    """After kill -9 of the program the kernel ends everything in the sandbox."""
    mark = unique_mark()
    command = [sys.executable, "-c", PROGRAM, str(run.root), mark]
    with subprocess.Popen(command) as program:
        # Besides the program: `bwrap`, the first process of the sandbox, the shell, and sometimes one that it starts.
        held = []
        for pid in wait_for(mark, 4):
            with suppress(ProcessLookupError):
                held += [os.pidfd_open(pid)] if pid != program.pid else []
        program.send_signal(signal.SIGKILL)
        program.wait()
    assert len(held) >= 2
    for one in held:
        assert select.select([one], [], [], PATIENCE)[0] == [one]
        os.close(one)
    assert processes_with(mark) == []


async def test_a_command_waits_for_the_program(run, monkeypatch):
    """If the program ends before it lets the command begin, the command is never run."""

    def end(_self, tell):
        os.dup2(os.open(os.devnull, os.O_WRONLY), tell)

    monkeypatch.setattr(SandboxedProcess, "_begin", end)
    output = await run("echo run")
    assert (output.text, output.note) == ("", "[exit code 1]")


async def test_without_namespaces_the_command_has_a_folder_of_its_own(run, monkeypatch, tmp_path):
    """As on macOS; here the command that would be run by `sandbox-exec` is run as it is."""
    program = tmp_path / "sandbox-exec"
    program.write_text('#!/bin/sh\nshift 2\nexec "$@"\n')
    program.chmod(0o755)
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(system_sandbox, "SANDBOX_EXEC", str(program))
    output = await run("pwd; test $HOME = $TMPDIR && touch $HOME/x && rm $HOME/x && echo $#; exit 3")
    assert (output.text, output.note) == (f"{run.root}\n0\n", "[exit code 3]")
    mark = unique_mark()
    output = await run(f"sleep 300; : {mark}", seconds=0.3)
    assert output.note.startswith("[stopped: it took more than")
    assert processes_with(mark) == []


@pytest.mark.parametrize(("command", "reason"), [("echo \0", "NUL"), ("x" * 100_001, "at most 100,000 characters")])
async def test_impossible_commands_are_errors(run, command, reason):
    """The model reads what is wrong."""
    with pytest.raises(ToolError, match=reason):
        await run(command)


async def test_a_sandbox_that_cannot_be_made_is_an_error(run, monkeypatch):
    """Nothing is run, and the error says why; a program that is missing too."""
    monkeypatch.setattr(process, "filter_for", lambda: b"\xff" * 8)
    with pytest.raises(ToolError, match=r"the sandbox cannot be made: .*system call filtering"):
        await run("echo ok")
    monkeypatch.setattr(system_sandbox, "program", lambda: "/missing/bwrap")
    with pytest.raises(ToolError, match=r"the sandbox cannot be started: .*No such file"):
        await run("echo ok")

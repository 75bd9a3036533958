"""Ctrl-C, SIGTERM and SIGHUP while MCP servers are running: the run ends and no server process is left."""

import json
import os
import signal

import pytest

from tests.wire.mcp_servers.running_servers import running, script
from tests.wire.simulator.replies import calls

PATIENCE = 60
"""Timeout, after which a hanging program fails the test [s]."""


@pytest.fixture
def marked(tmp_path, monkeypatch):
    """A path that appears on the command line of the servers, and is a pipe to which a server reports its state."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    pipe = tmp_path / "marker"
    os.mkfifo(pipe)
    return pipe


def servers(how, mark):
    """Return the front matter for a misbehaving server, with a timeout longer than any test."""
    command = json.dumps(script("raw", how, str(mark)))
    return f"mcp_servers: {{raw: {{command: {command}, env: {{MARKER: {mark}}}, timeout: 600}}}}"


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize("numbers", [[signal.SIGINT], [signal.SIGTERM, signal.SIGINT], [signal.SIGHUP]])
def test_a_signal_during_a_call_ends_the_run_and_its_servers(api, write, program, marked, numbers):
    """The server ignores the signals and never answers: exit code 130, the outcome is printed, no process is left.

    SIGTERM alone waits for the call.
    """
    write("finder", servers("stubborn", marked))
    api([calls("mcp__raw__look", {})])
    process = program("finder", "What do owls eat?", "--trust", "--json", start_new_session=True)
    assert marked.read_text() == "called"
    for number in numbers:
        os.killpg(process.pid, number)
    out, _ = process.communicate(timeout=PATIENCE)
    assert (process.returncode, json.loads(out)["status"]) == (130, "aborted")
    assert running(marked) == []


@pytest.mark.exhaustive
def test_a_killed_program_leaves_no_server_process(api, write, program, marked):
    """After SIGKILL, a server that exits at the end of its input is not left running."""
    write("finder", servers("told", marked))
    api([calls("mcp__raw__look", {})])
    process = program("finder", "What do owls eat?", "--trust")
    assert marked.read_text() == "called"
    process.kill()
    process.wait(PATIENCE)
    # The server opens the pipe for writing once more, when its input has ended, just before it exits.
    assert marked.read_text() == "ended"

"""The stdio server as a process: only protocol messages on standard output, and no process left behind."""

import json
import signal
from pathlib import Path

import pytest

from run_specialist.store.reader import Store
from tests.wire.serving import MAIN, PATIENCE, owl_project
from tests.wire.simulator import Gate, MessagesSimulator
from tests.wire.simulator.replies import answers, calls, says
from tests.wire.stdio_client import HELLO, READY, answer_to, asks, ended, send

PRINTS = """
import os, sys
from run_specialist.tools import files
search = files._FileTools.search

def printing(self, query: str, limit: int = 10) -> str:
    print("printed by a tool", flush=True)
    os.write(1, b"written past Python\\n")
    os.system("echo said by a child; cat")
    return search(self, query, limit)

files._FileTools.search = printing
"""
"""Code for a search that writes to standard output in several ways and reads standard input."""


@pytest.fixture(autouse=True)
def project(tmp_path, monkeypatch) -> Path:
    """Create a project with notes, a specialist for them and its own store, and change into it."""
    return owl_project(tmp_path, monkeypatch)


@pytest.fixture
def newest(tmp_path):
    """Return a function that loads the newest run."""

    def load():
        with Store(f"sqlite:///{tmp_path}/runs.db") as opened:
            return opened.load("last")

    return load


@pytest.fixture
def asked(program, monkeypatch):
    """Return a function that starts the server and sends calls; the second reply of the model does not arrive."""
    gate = Gate()
    script = [calls("search", {"query": "owls"}), says("too late", gate=gate), answers("Mice.")]
    with MessagesSimulator(script, all_used=False) as api:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", api.base_url)

        def start(*messages):
            server = program()
            send(server, HELLO, READY, *messages)
            gate.wait_for_request(PATIENCE)
            return server

        yield start


def test_only_protocol_messages_are_written_to_stdout(program):
    """Output of tools and child processes goes to standard error."""
    server = program("--model", "offline", code=PRINTS + MAIN)
    send(server, HELLO, READY, asks(2, "finder", query="What do owls eat?"), asks(3, "get_run", run_id="x"))
    assert answer_to(server, 1)["result"]["serverInfo"]["name"] == "run-specialist"
    answers = {}
    for line in server.process.stdout:
        message = json.loads(line)
        answers[message.get("id")] = message
        if {2, 3} <= answers.keys():
            break
    assert "Owls eat mice" in answers[2]["result"]["content"][0]["text"]
    out, err = server.process.communicate(timeout=PATIENCE)
    assert out == ""
    for told in ("printed by a tool", "written past Python", "said by a child"):
        assert told in err
    assert server.process.returncode == 0


@pytest.mark.exhaustive
def test_closing_stdin_aborts_the_run_and_ends_the_server(asked, newest):
    """Closing standard input aborts the active run, stores its results so far, and ends the server with exit code 0."""
    server = asked(asks(2, "start_run", specialist="finder", query="What do owls eat?"))
    assert answer_to(server, 2)["result"]["structuredContent"]["status"] == "running"
    server.process.stdin.close()
    server.process.stdin = None
    assert ended(server) == (0, [])
    assert newest().status == "aborted"
    assert "Owls eat mice" in newest().outcome["answer"]


@pytest.mark.exhaustive
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGHUP, 0), (signal.SIGINT, 130)])
def test_a_signal_answers_the_active_call_and_ends_the_server(number, code, asked, newest):
    """A signal ends the server after it has answered the active call with the results gathered so far."""
    server = asked(asks(2, "finder", query="What do owls eat?"))
    server.process.send_signal(number)
    result = answer_to(server, 2)["result"]
    assert result["isError"]
    assert result["structuredContent"]["status"] == "aborted"
    assert "Owls eat mice" in result["structuredContent"]["answer"]
    assert ended(server) == (code, [])
    assert newest().status == "aborted"


@pytest.mark.exhaustive
def test_a_cancelled_request_aborts_its_run_and_no_other(asked, tmp_path):
    """The client's cancellation notification aborts that run only; the server continues."""
    server = asked(asks(2, "finder", query="What do owls eat?"))
    send(server, {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2, "reason": "x"}})
    # The server answers another call; it ends only after the cancelled run is stored.
    send(server, asks(3, "finder", query="What do owls eat?"))
    assert answer_to(server, 3)["result"]["structuredContent"]["answer"] == "Mice."
    server.process.stdin.close()
    server.process.stdin = None
    assert ended(server) == (0, [])
    with Store(f"sqlite:///{tmp_path}/runs.db") as opened:
        assert sorted(run.status for run in opened.runs()) == ["aborted", "answered"]


@pytest.mark.exhaustive
def test_a_full_output_pipe_does_not_delay_shutdown(asked, newest):
    """A signal ends the server even if its output pipe is full and the client does not read."""
    lists = [{"jsonrpc": "2.0", "id": number, "method": "tools/list"} for number in range(100, 120)]
    server = asked(asks(2, "finder", query="What do owls eat?"), *lists)
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(PATIENCE) == 0
    assert newest().status == "aborted"


@pytest.mark.exhaustive
def test_invalid_lines_are_skipped(program):
    """Lines that are not JSON, not messages, not UTF-8 or too long are skipped; a lone surrogate is answered."""
    server = program("--model", "offline")
    long = '{"jsonrpc": "2.0", "id": 7, "method": "ping", "params": {"x": "' + "x" * 5_000_000 + '"}}\n'
    send(server, "hello\n", "\n", "[1, 2]\n", "{}\n", '{"jsonrpc": "2.0"\n', long, HELLO)
    server.process.stdin.buffer.write(b"\xff\xfe\x00\n")
    send(server, READY, {"jsonrpc": "2.0", "id": 2, "method": "ping"}, "x" * 100)
    assert answer_to(server, 1)["result"]["protocolVersion"] == "2025-06-18"
    assert answer_to(server, 2)["result"] == {}
    # The MCP library refuses such a message.
    half = json.dumps(asks(3, "finder", query="What do owls eat? \ud83d")) + "\n"
    assert r"\ud83d" in half
    send(server, "\n", half)
    assert answer_to(server, 3)["result"]["structuredContent"]["status"] == "answered"
    server.process.stdin.close()
    server.process.stdin = None
    code, said = ended(server)
    assert code == 0
    assert said == ["specialists: warning: skipped a message of more than 4194304 bytes"]

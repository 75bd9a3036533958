"""The stdio server as a process: only protocol messages on standard output, and no process left behind."""

import asyncio
import json
import os
import signal
from pathlib import Path

import jsonschema
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters

from run_specialist.store.reader import Store
from tests.wire.serving import MAIN, PATIENCE, ProgressLog, command, owl_project
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
def stored(tmp_path):
    """Return a function that loads the newest run."""

    def load():
        with Store(f"sqlite:///{tmp_path}/runs.db") as opened:
            return opened.load("last")

    return load


@pytest.fixture
def api(monkeypatch):
    """Return a function that starts a simulated API and points ANTHROPIC_BASE_URL at it."""
    running = []

    def start(script, **options) -> MessagesSimulator:
        running.append(MessagesSimulator(script, **options).start())
        monkeypatch.setenv("ANTHROPIC_BASE_URL", running[-1].base_url)
        return running[-1]

    yield start
    for one in running:
        one.stop()


def own(code: str = MAIN, *arguments: str) -> StdioServerParameters:
    """Return the parameters with which the official client starts the server."""
    name, *rest = command(*arguments, code=code)
    return StdioServerParameters(command=name, args=rest, env=dict(os.environ))


@pytest.mark.exhaustive(one_in=2)
@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_the_official_client_uses_the_real_program(mode):
    """The official client lists tools, calls one and gets progress in order, without an API key."""
    progress_log = ProgressLog()
    async with asyncio.timeout(PATIENCE), Client(own(), mode=mode) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        result = await client.call_tool("finder", {"query": "What do owls eat?"}, progress_callback=progress_log)
        assert client.server_info is None or client.server_info.name == "run-specialist"
        assert "at its limit with what it has gathered" in client.instructions
    jsonschema.validate(result.structured_content, tools["finder"].output_schema)
    assert "Owls eat mice at night." in result.content[0].text
    assert result.structured_content["model"] == "offline"
    assert progress_log.notifications == sorted(progress_log.notifications)
    assert progress_log.messages[0].startswith("finder started on offline · 4 tool calls · run ")
    assert progress_log.messages[1] == "search: 'What do owls eat?' · 1 of 4 tool calls used, 3 remaining"


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
def test_closing_stdin_aborts_the_run_and_ends_the_server(api, program, stored):
    """Closing standard input aborts the active run, stores its results so far, and ends the server with exit code 0."""
    gate = Gate()
    api([calls("search", {"query": "owls"}), says("too late", gate=gate)])
    server = program()
    send(server, HELLO, READY, asks(2, "start_run", specialist="finder", query="What do owls eat?"))
    assert answer_to(server, 2)["result"]["structuredContent"]["status"] == "running"
    gate.wait_for_request(PATIENCE)
    server.process.stdin.close()
    server.process.stdin = None
    assert ended(server) == (0, [])
    run = stored()
    assert run.status == "aborted"
    assert "Owls eat mice" in run.outcome["answer"]


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGHUP, 0), (signal.SIGINT, 130)])
def test_a_signal_answers_the_active_call_and_ends_the_server(number, code, api, program, stored):
    """A signal ends the server after it has answered the active call with the results gathered so far."""
    gate = Gate()
    api([calls("search", {"query": "owls"}), says("too late", gate=gate)])
    server = program()
    send(server, HELLO, READY, asks(2, "finder", query="What do owls eat?"))
    gate.wait_for_request(PATIENCE)
    server.process.send_signal(number)
    result = answer_to(server, 2)["result"]
    assert result["isError"]
    assert result["structuredContent"]["status"] == "aborted"
    assert "Owls eat mice" in result["structuredContent"]["answer"]
    assert server.process.wait(PATIENCE) == code
    assert ended(server) == (code, [])
    assert stored().status == "aborted"


def test_a_cancelled_request_aborts_its_run_and_no_other(api, program, stored):
    """The client's cancellation notification aborts that run only; the server continues."""
    gate = Gate()
    api([calls("search", {"query": "owls"}), says("too late", gate=gate), answers("Mice.")])
    server = program()
    send(server, HELLO, READY, asks(2, "finder", query="What do owls eat?"))
    gate.wait_for_request(PATIENCE)
    send(server, {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2, "reason": "x"}})
    # The server answers another call; it ends only after the cancelled run is stored.
    send(server, asks(3, "finder", query="What do owls eat?"))
    assert answer_to(server, 3)["result"]["structuredContent"]["answer"] == "Mice."
    server.process.stdin.close()
    server.process.stdin = None
    assert ended(server) == (0, [])
    with Store(os.environ["SPECIALIST_STORE"]) as opened:
        assert sorted(run.status for run in opened.runs()) == ["aborted", "answered"]


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


@pytest.mark.exhaustive
def test_a_full_output_pipe_does_not_delay_shutdown(api, program, stored):
    """A signal ends the server even if its output pipe is full and the client does not read."""
    gate = Gate()
    api([calls("search", {"query": "owls"}), says("too late", gate=gate)])
    server = program()
    big = [asks(number, "no-tool-of-this-name", query="x") for number in range(100, 700)]
    send(server, HELLO, READY, asks(2, "finder", query="What do owls eat?"), *big)
    gate.wait_for_request(PATIENCE)
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(PATIENCE) == 0
    assert stored().status == "aborted"

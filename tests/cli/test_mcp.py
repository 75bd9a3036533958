"""The command `specialists mcp`: invalid calls, signals during a call, and access over HTTP with tokens."""

import asyncio
import json
import os
import re
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from run_specialist.errors import UsageError
from run_specialist.installation import adding
from run_specialist.mcp_server.http import FILE, access_token
from tests.cli.specialists_command import call as specialists
from tests.forked_program import run_forked
from tests.wire.mcp_servers.running_servers import running, script
from tests.wire.serving import PATIENCE, Program, command
from tests.wire.simulator.replies import calls
from tests.wire.stdio_client import HELLO, NOT_HERE, READY, UNJUDGED, answer_to, asks, send


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--http", "localhost"], "--http: expected HOST:PORT, [IPV6]:PORT or a port, got 'localhost'"),
        (
            ["--http", "0.0.0.0:0", "--no-token"],
            "--http 0.0.0.0:0 is reachable from other machines: set a token with --token or",
        ),
        (["--http", "0", "--token", " "], "the token is empty, or has spaces"),
        (["--http", "0", "--token", "geheim\u00fc"], "spaces or non-ASCII characters"),
        (
            ["--http", "0", "--token", "x", "--no-token"],
            "--no-token cannot be combined with a token from --token or SPECIALIST_MCP_TOKEN",
        ),
        (["--dir", "nowhere"], "/nowhere is not a folder"),
        (["--store", "/proc/nowhere/runs.db"], "/proc/nowhere/runs.db cannot be opened: "),
    ],
)
def test_an_invalid_configuration_is_one_line(notes, arguments, told, monkeypatch):
    """It is reported with exit code 2, before any client connects; so is a missing extra, with how to install it."""
    result = specialists("mcp", *arguments)
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert told in result.stderr
    monkeypatch.setattr("run_specialist.cli.console.find_spec", lambda _: None)
    result = specialists("mcp", "--http", "0")
    assert (result.exit_code, f"specialists mcp needs the extra `mcp`; {adding('mcp')}\n" in result.stderr) == (2, True)


@pytest.mark.exhaustive
@pytest.mark.parametrize("stream", [0, 1])
def test_a_closed_standard_stream_is_one_line(notes, stream):
    """Started without standard input or output, as by some service managers, the command says what it needs."""
    done = run_forked(command(), stderr=subprocess.PIPE, text=True, closed=(stream,))
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert "standard input and output must be open" in done.stderr


@pytest.mark.exhaustive
def test_root_selects_the_project_to_serve(notes, write, tmp_path, monkeypatch):
    """With --root, its specialists are served, also with warnings; other paths start at the working directory."""
    write("finder")
    (tmp_path / "more").mkdir()
    (notes / "specialists" / "finder.md").rename(tmp_path / "more" / "extra.md")
    write("looker", "tools: search, grep, read, telepathy")
    monkeypatch.chdir(tmp_path)
    server = Program.start("--root", "project", "--dir", "more", "--store", "runs.db", "--model", "offline")
    send(server, HELLO, READY, {"jsonrpc": "2.0", "id": 2, "method": "tools/list"})
    assert {"finder", "looker"} <= {tool["name"] for tool in answer_to(server, 2)["result"]["tools"]}
    send(server, asks(3, "looker", query="What do owls eat?"))
    assert "Owls eat mice" in answer_to(server, 3)["result"]["content"][0]["text"]
    server.process.communicate(timeout=PATIENCE)
    assert (tmp_path / "runs.db").exists()


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


@pytest.mark.exhaustive
@pytest.mark.parametrize("numbers", [[signal.SIGTERM, signal.SIGINT], [signal.SIGHUP]])
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


FLAGS = ["--http", "127.0.0.1:0", "--model", "offline"]


@pytest.fixture
def data(notes, tmp_path, monkeypatch) -> Path:
    """An empty user data directory, and a project as the working directory."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.delenv("SPECIALIST_MCP_TOKEN", raising=False)
    return tmp_path / "data" / "run-specialist"


@pytest.fixture
def started(data):
    """Return a function that starts the server and returns its stderr lines up to the last one, which has the URL."""
    running = []

    def start(*arguments: str) -> list[str]:
        program = Program.start(*FLAGS, *arguments)
        running.append(program)
        lines = []
        for line in program.process.stderr:
            # Which specialists cannot work here, and that no model judges, has nothing to do with tokens.
            if not re.match(f"{NOT_HERE}|{UNJUDGED}", line):
                lines.append(line.rstrip("\n"))
            if " on http" in line:
                return lines
        raise AssertionError(lines)

    start.running = running
    yield start
    for program in running:
        program.end()


def token_in(lines) -> str:
    """Return the token from the command line that the server prints for clients."""
    (found,) = [match[1] for line in lines if (match := re.search(r'--header "Authorization: Bearer (\S+)"', line))]
    return found


def status(lines, **headers) -> int:
    """Return the status of a request to another path, which is 404 if access is allowed."""
    url = lines[-1].split(" on ")[1].replace("/mcp", "/other")
    return httpx2.get(url, headers=headers, timeout=PATIENCE).status_code


@pytest.mark.exhaustive
async def test_the_printed_token_authorizes_an_official_client_and_is_kept(started, data, write):
    """A client with the printed command can ask, also after a restart; only one file has the token, and is private."""
    write("finder", "paths: [notes]")
    lines = await asyncio.to_thread(started, "--store", str(data / "runs.db"))
    token, url = token_in(lines), lines[-1].split(" on ")[1]
    assert f"claude mcp add --transport http specialists {url} --header" in "\n".join(lines)
    assert f"specialists: the token is stored in {data / FILE}; delete this file to generate a new one" in lines
    known = httpx2.AsyncClient(headers={"authorization": f"Bearer {token}"}, timeout=PATIENCE)
    async with asyncio.timeout(PATIENCE), known, Client(streamable_http_client(url, http_client=known)) as client:
        result = await client.call_tool("finder", {"query": "What do owls eat?"})
    assert "Owls eat mice at night." in result.content[0].text
    process = started.running[0].process
    process.send_signal(signal.SIGTERM)
    out, err = await asyncio.to_thread(process.communicate, timeout=PATIENCE)
    assert (process.returncode, out, err) == (0, "", "")
    assert [path.name for path in data.rglob("*") if path.is_file() and token.encode() in path.read_bytes()] == [FILE]
    assert (data / "runs.db").exists()
    assert (data / FILE).stat().st_mode & 0o777 == 0o600
    assert token_in(await asyncio.to_thread(started)) == token
    (data / FILE).unlink()
    assert token_in(await asyncio.to_thread(started)) != token


@pytest.mark.exhaustive
@pytest.mark.parametrize("how", ["flag", "environment"])
def test_a_given_token_is_neither_printed_nor_replaced(started, data, monkeypatch, how):
    """A token chosen by the user is neither printed nor replaced by a generated one."""
    if how == "environment":
        monkeypatch.setenv("SPECIALIST_MCP_TOKEN", "of-my-own")
    lines = started(*(["--token", "of-my-own"] if how == "flag" else []))
    assert "of-my-own" not in "\n".join(lines)
    assert (len(lines), status(lines), status(lines, authorization="Bearer of-my-own")) == (1, 401, 404)
    assert not (data / FILE).exists()


@pytest.mark.exhaustive
def test_no_token_prints_a_warning(started, data):
    """With `--no-token`, one line warns that every local process has access."""
    lines = started("--no-token")
    assert lines[0] == (
        "specialists: warning: without a token, every process on this machine, including those of other users, can ask "
        "the specialists, spend money with your API key, and read the files that the specialists can read"
    )
    assert (len(lines), status(lines)) == (2, 404)
    assert not (data / FILE).exists()


def test_an_invalid_token_file_is_refused(data):
    """One that others can read, with a remedy; an empty one would let all in, an invalid one cannot be sent."""
    data.mkdir(parents=True)
    (data / FILE).write_text("known-to-all\n")
    (data / FILE).chmod(0o644)
    done = run_forked(command(*FLAGS), capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 2
    assert done.stderr == (
        f"specialists: {data / FILE} belongs to another user, or is accessible to others; delete it, and the next "
        "start generates a new token\n"
    )
    (data / FILE).chmod(0o600)
    for kept in ("", "two words", "geheimü", "\x00"):
        (data / FILE).write_text(kept, encoding="utf-8")
        with pytest.raises(UsageError, match="does not contain a token; delete it"):
            access_token()


def test_an_unstorable_token_is_valid_for_one_start(tmp_path):
    """If it cannot be stored, each start has a new one and says why; no link is read; starts at once share one."""
    with ThreadPoolExecutor(8) as pool:
        (token,) = {one.value for one in pool.map(access_token, [tmp_path / "new"] * 8)}
    assert re.fullmatch(r"[\w-]{43}", token)
    (tmp_path / "file").touch()
    (tmp_path / "elsewhere").write_text("planted\n")
    (tmp_path / FILE).symlink_to(tmp_path / "elsewhere")
    (tmp_path / "taken" / FILE).mkdir(parents=True)
    for folder in (tmp_path / "file" / "below", tmp_path / "taken", tmp_path):
        one, other = access_token(folder), access_token(folder)
        assert one.value != other.value
        assert "planted" not in {one.value, other.value}
        assert one.message.startswith(f"the token cannot be stored and changes at each start: {folder / FILE}: ")

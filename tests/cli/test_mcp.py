"""The command `specialists mcp`: its messages before it serves, and its imports."""

import json
import subprocess
import sys

import pytest

from run_specialist.installation import adding
from tests.forked_program import ForkedProgram, run_forked
from tests.wire.serving import MAIN, PATIENCE, command

BLOCKED = "import sys; sys.modules['mcp'] = sys.modules['mcp_types'] = None; "
"""Code that makes imports of the optional packages fail."""


@pytest.fixture
def refused(notes):
    """Return a function that runs the command, which must exit by itself, and returns exit code and stderr lines."""

    def call(*arguments: str, before: str = "") -> tuple[int, list[str]]:
        done = (subprocess.run if before else run_forked)(
            command(*arguments, code=before + MAIN),
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            stdin=subprocess.DEVNULL,
            check=False,
        )
        assert done.stdout == ""
        return done.returncode, done.stderr.splitlines()

    return call


def test_help_does_not_import_the_library():
    """`--help` shows the flags without importing the MCP library."""
    code = "from run_specialist.cli.manage import app; app(['mcp', '--help'], standalone_mode=False)"
    told = (
        f"{code}; import sys; sys.exit('mcp' in sys.modules or 'mcp_types' in sys.modules or 'uvicorn' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "--http HOST:PORT" in done.stdout


def test_a_missing_extra_names_the_install_command(refused):
    """Without the extra, one line says how to install it, and the exit code is 2."""
    assert refused("--http", "0", before=BLOCKED) == (
        2,
        [f"specialists: specialists mcp needs the extra `mcp`; {adding('mcp')}"],
    )
    assert refused(before=BLOCKED)[0] == 2


@pytest.mark.exhaustive(one_in=10)
@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--http", "localhost"], "--http: expected HOST:PORT, [IPV6]:PORT or a port, got 'localhost'"),
        (
            ["--http", "0.0.0.0:0", "--no-token"],
            "--http 0.0.0.0:0 is reachable from other machines: set a token with --token or",
        ),
        (["--http", "no-such-host.invalid:0", "--token", "x"], "--http: no-such-host.invalid: "),
        (["--http", "0", "--token", " "], "the token is empty, or has spaces"),
        (["--http", "0", "--token", "geheim\u00fc"], "spaces or non-ASCII characters"),
        (["--http", "0", "--token", "two words"], "spaces or non-ASCII characters"),
        (
            ["--http", "0", "--token", "x", "--no-token"],
            "--no-token cannot be combined with a token from --token or SPECIALIST_MCP_TOKEN",
        ),
        (["--http", "[::]:0", "--no-token"], "--http [::]:0 is reachable from other machines"),
        (["--root", "nowhere"], "No such file or directory: "),
        (["--dir", "nowhere"], "/nowhere is not a folder"),
        (["--store", "/proc/nowhere/runs.db"], "/proc/nowhere/runs.db cannot be opened: "),
    ],
)
@pytest.mark.exhaustive(one_in=2)
def test_an_invalid_configuration_is_one_line(refused, arguments, told):
    """An invalid configuration is reported on one line with exit code 2, before any client connects."""
    code, said = refused(*arguments)
    assert (code, len(said)) == (2, 1)
    assert said[0].startswith("specialists: ")
    assert told in said[0]


@pytest.mark.parametrize("stream", [0, 1])
def test_a_closed_standard_stream_is_one_line(notes, stream):
    """Started without standard input or output, as by some service managers, the command says what it needs."""
    done = subprocess.run(
        ["/bin/sh", "-c", f'exec "$@" {stream}<&-', "sh", *command(code=MAIN)],
        stderr=subprocess.PIPE,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert "standard input and output must be open" in done.stderr


def test_root_selects_the_project_to_serve(notes, write, tmp_path, monkeypatch):
    """With --root, its specialists are served, also with warnings; other paths start at the working directory."""
    write("finder")
    (tmp_path / "more").mkdir()
    (notes / "specialists" / "finder.md").rename(tmp_path / "more" / "extra.md")
    write("looker", "tools: search, grep, read, telepathy")
    monkeypatch.chdir(tmp_path)
    flags = ["--root", "project", "--dir", "more", "--store", "runs.db", "--model", "offline"]
    calls = [
        {"id": 1, "method": "tools/list"},
        {"id": 2, "method": "tools/call", "params": {"name": "looker", "arguments": {"query": "What do owls eat?"}}},
    ]
    age = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
    server = ForkedProgram(command(*flags), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    answers = []
    for call in calls:
        call["params"] = {**call.get("params", {}), "_meta": age}
        server.stdin.write(json.dumps({"jsonrpc": "2.0", **call}) + "\n")
        server.stdin.flush()
        answers.append(json.loads(server.stdout.readline())["result"])
    server.communicate(timeout=PATIENCE)
    assert {"finder", "looker"} <= {tool["name"] for tool in answers[0]["tools"]}
    assert "Owls eat mice" in answers[1]["content"][0]["text"]
    assert (tmp_path / "runs.db").exists()

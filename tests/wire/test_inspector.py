"""The MCP Inspector, a third-party client, lists and calls the specialists over both transports.

TEST_INSPECTOR names the folder where npm has installed it together with a suitable version of Node; no test downloads
anything.
"""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.wire.serving import PATIENCE, Program, command, write_specialist

PACKAGES = ("@modelcontextprotocol/inspector@>=2.12 <3", "node@>=22.19 <23")
QUERY = "What do owls eat?"
ERAS = ["legacy", "modern"]


def installed(folder: Path) -> list[str] | None:
    """Return the command of the Inspector installed in a folder, or None if it is not installed."""
    node, inspector = folder / "node_modules/node/bin/node", folder / "node_modules/.bin/mcp-inspector"
    return [str(node), str(inspector)] if node.exists() and inspector.exists() else None


@pytest.fixture(scope="module")
def inspector() -> list[str]:
    """The command that starts the Inspector."""
    folder = os.environ.get("TEST_INSPECTOR")
    if folder is None:
        packages = " ".join(f"'{package}'" for package in PACKAGES)
        pytest.skip(f"Node: TEST_INSPECTOR names no folder; it is made by npm install --prefix FOLDER {packages}")
    found = installed(Path(folder))
    assert found, f"there is no Inspector in {folder}"
    return found


@pytest.fixture
def project(project) -> Path:
    """The project with notes and a specialist for them."""
    (project / "notes").mkdir()
    (project / "notes" / "owls.md").write_text("# Owls\n\nOwls eat mice at night.\n")
    write_specialist(project, "finder", "tool_calls_limit: 4", "paths: [notes]", 'output_schema: {"type": "string"}')
    return project


Inspect = Callable[..., tuple[int, dict[str, Any], str]]


@pytest.fixture
def inspect(inspector, project) -> Inspect:
    """Return a function that runs the Inspector and returns its exit code, its JSON output and its standard error."""

    def start(*arguments: str) -> tuple[int, dict[str, Any], str]:
        # On a busy machine the start of a server may take longer than the 15 seconds that the Inspector waits.
        command = [*inspector, "--cli", "--connect-timeout", "0", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert done.stdout, done.stderr
        return done.returncode, json.loads(done.stdout), done.stderr

    return start


def check_listing(code: int, printed: dict[str, Any], complaints: str) -> None:
    """Check the tools that the Inspector lists in strict mode."""
    assert code == 0, complaints
    tools = {tool["name"]: tool for tool in printed["tools"]}
    assert {"finder", "start_run", "get_run", "cancel_run"} <= tools.keys()
    assert tools["finder"]["inputSchema"]["properties"]["tool_calls_limit"]["default"] == 4
    assert tools["finder"]["annotations"]["readOnlyHint"] is True


def check_call(code: int, printed: dict[str, Any], complaints: str) -> None:
    """Check the result of a call, which quotes the note with the answer."""
    assert code == 0, complaints
    assert not printed.get("isError")
    assert "Owls eat mice at night." in printed["content"][0]["text"]
    outcome = printed["structuredContent"]
    assert (outcome["specialist"], outcome["tool_calls"]["limit"]) == ("finder", 2)


CALL = ["--method", "tools/call", "--tool-name", "finder", "--tool-arg", f"query={QUERY}", "tool_calls_limit=2"]
LIST = ["--method", "tools/list", "--strict"]


@pytest.mark.parametrize("era", ERAS)
def test_the_inspector_lists_and_calls_over_stdio(inspect, era):
    """The Inspector starts the server itself and lists and calls over stdio, in both eras of the protocol."""
    server = [*command("--model", "offline", "--store", "none"), "--protocol-era", era]
    check_listing(*inspect(*server, *LIST))
    check_call(*inspect(*server, *CALL))


@pytest.mark.parametrize("era", ERAS)
def test_the_inspector_lists_and_calls_over_http(inspect, era):
    """The Inspector lists and calls over HTTP with the token that the server requires."""
    program = Program.start("--http", "0", "--model", "offline", "--store", "none", "--token", "let-me-in")
    try:
        server = ["--transport", "http", "--server-url", program.url(), "--protocol-era", era]
        known = [*server, "--header", "Authorization: Bearer let-me-in"]
        check_listing(*inspect(*known, *LIST))
        check_call(*inspect(*known, *CALL))
    finally:
        program.end()


def test_the_inspector_reports_a_tool_error(inspect):
    """An empty question is a tool error: the Inspector exits with an error code and prints the server's message."""
    server = command("--model", "offline", "--store", "none")
    code, printed, _ = inspect(*server, "--method", "tools/call", "--tool-name", "finder", "--tool-arg", "query= ")
    assert code != 0
    assert printed["isError"] is True
    assert "query: wanted a text that is not empty" in printed["content"][0]["text"]

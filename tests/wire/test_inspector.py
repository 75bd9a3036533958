"""The MCP Inspector, a third-party client, lists and calls specialists over both transports, and reads runs.

TEST_INSPECTOR names the folder where npm has installed it and a suitable version of Node; no test downloads anything.
"""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.wire.serving import PATIENCE, command, write_specialist


@pytest.fixture
def project(project) -> Path:
    """The project with notes and a specialist for them."""
    (project / "notes").mkdir()
    (project / "notes" / "owls.md").write_text("# Owls\n\nOwls eat mice at night.\n")
    write_specialist(project, "finder", "tool_calls_limit: 4", "paths: [notes]", 'output_schema: {"type": "string"}')
    return project


@pytest.mark.parametrize(("transport", "era"), [("stdio", "modern"), ("http", "legacy")])
def test_the_inspector_lists_calls_and_reads(node_program, project, program, transport, era):
    """The Inspector lists, calls and reads in both eras, with the token over HTTP; a tool error is one."""
    if transport == "http":
        url = program("--http", "0", "--model", "offline", "--store", "none", "--token", "let-me-in").url()
        server = ["--transport", "http", "--server-url", url, "--header", "Authorization: Bearer let-me-in"]
    else:
        server = command("--model", "offline", "--store", "none")

    def inspect(*arguments: str) -> tuple[int, dict[str, Any]]:
        # On a busy machine the start of a server may take longer than the 15 seconds that the Inspector waits.
        given = [
            *node_program("mcp-inspector"),
            "--cli",
            "--connect-timeout",
            "0",
            *server,
            "--protocol-era",
            era,
            *arguments,
        ]
        done = subprocess.run(given, capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert done.stdout, done.stderr
        return done.returncode, json.loads(done.stdout)

    if transport == "stdio":
        code, printed = inspect("--method", "tools/list", "--strict")
        tools = {tool["name"]: tool for tool in printed["tools"]}
        assert (code, tools["finder"]["inputSchema"]["properties"]["tool_calls_limit"]["default"]) == (0, 4)
    asks = ("--method", "tools/call", "--tool-name", "finder", "--tool-arg")
    code, printed = inspect(*asks, "query=What do owls eat?", "tool_calls_limit=2")
    outcome = printed["structuredContent"]
    assert (code, outcome["specialist"], outcome["tool_calls"]["limit"]) == (0, "finder", 2)
    answer = printed["content"][0]["text"]
    assert "Owls eat mice at night." in answer
    code, printed = inspect("--method", "prompts/get", "--prompt-name", "finder", "--prompt-args", "query=Mice?")
    assert (code, printed["messages"][0]["content"]["text"].endswith("Mice?")) == (0, True)
    if transport == "http":
        # Over stdio each call starts a server of its own, which stores no runs.
        uri = f"run-specialist://runs/{outcome['run_id']}/report"
        code, printed = inspect("--method", "resources/read", "--uri", uri)
        assert (code, printed["contents"][0]["text"]) == (0, answer)
    code, printed = inspect(*asks, "query= ")
    assert (code != 0, printed["isError"]) == (True, True)
    assert "query: wanted a text that is not empty" in printed["content"][0]["text"]

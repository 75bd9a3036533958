"""docs/agents.md: each snippet can be parsed and starts the real server."""

import json
import re
import shlex
import subprocess
import sys
import tomllib

import pytest
from typer.testing import CliRunner

from run_specialist.cli import manage
from tests.cli.specialists_command import MAIN
from tests.docs.markdown import blocks, page, table
from tests.forked_program import ForkedProgram

TEXT = page("agents")
SNIPPETS = re.findall(r"^```(json|toml) (\S+)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
KEYS = {
    ".mcp.json": ("mcpServers", {"type", "command", "args", "env"}),
    "~/.codex/config.toml": (
        "mcp_servers",
        {"command", "args", "env_vars", "startup_timeout_sec", "tool_timeout_sec"},
    ),
    ".gemini/settings.json": ("mcpServers", {"command", "args", "env", "timeout"}),
    ".vscode/mcp.json": ("servers", {"type", "command", "args", "env"}),
    ".cursor/mcp.json": ("mcpServers", {"type", "command", "args", "env"}),
}
"""The client's key for its servers, and those of one server that the page uses, by file."""


def servers():
    """Return the registered server of each file, by the file's name."""
    found = {}
    for kind, file, text in SNIPPETS:
        value = tomllib.loads(text) if kind == "toml" else json.loads(text)
        found[file] = (value, value[KEYS[file][0]]["specialists"])
    return found


def commands():
    """Return each command that a snippet or a line of the page registers."""
    lines = [shlex.split(line) for block in blocks(TEXT, "console") for line in block.splitlines()]
    typed = [words[len(words) - words[::-1].index("specialists") - 1 :] for words in lines if "add" in words]
    return [*typed, *([server["command"], *server["args"]] for _, server in servers().values())]


def test_every_client_has_a_snippet_in_its_own_format():
    """Each file of the table has one snippet, with the keys that its client reads."""
    assert {file: set(server) for file, (_, server) in servers().items()} == {file: KEYS[file][1] for file in KEYS}
    listed = [name for row in table(TEXT, "## Register the MCP server") for name in re.findall("`([^`]+)`", row[1])]
    assert set(KEYS) <= set(listed)


def test_the_registered_commands_are_real():
    """Every command is `specialists mcp` with flags that exist."""
    printed = CliRunner().invoke(manage.app, ["mcp", "--help"]).stdout
    assert len(commands()) == 3 + len(KEYS)
    for words in commands():
        assert words[:2] == ["specialists", "mcp"]
        assert all(word in printed for word in words if word.startswith("--"))


def test_a_referenced_input_is_declared():
    """The key that VS Code asks for is declared under `inputs`, as a password."""
    value, server = servers()[".vscode/mcp.json"]
    (name,) = re.findall(r"\$\{input:([\w-]+)\}", server["env"]["ANTHROPIC_API_KEY"])
    assert [(one["id"], one["password"]) for one in value["inputs"]] == [(name, True)]


@pytest.mark.parametrize("words", sorted({tuple(words) for words in commands()}), ids=" ".join)
def test_the_registered_commands_start_the_server(words, tmp_path, monkeypatch):
    """Each command, with a real folder, answers `initialize` and lists the tools of the project."""
    (tmp_path / "specialists").mkdir()
    (tmp_path / "specialists" / "owl.md").write_text("---\nname: owl\ndescription: Counts owls\n---\nCount.\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    arguments = [re.sub(r"^/path/to/project$|^\$\{workspaceFolder\}$", str(tmp_path), word) for word in words[1:]]
    begin = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    messages = [
        {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": begin},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 1, "method": "tools/list"},
    ]
    command = [sys.executable, "-W", "error", "-c", MAIN, *arguments]
    with ForkedProgram(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        for message in messages:
            server.stdin.write(json.dumps(message) + "\n")
        server.stdin.flush()
        replies = [json.loads(server.stdout.readline()) for _ in range(2)]
        server.stdin.close()
    assert server.returncode == 0
    assert replies[0]["result"]["serverInfo"]["name"]
    assert "owl" in {tool["name"] for tool in replies[1]["result"]["tools"]}

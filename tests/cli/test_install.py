"""The command `specialists install`: configurations of other programs, and the plugin."""

import json
import os
import stat
import tomllib
from pathlib import Path

import frontmatter
import pytest

from run_specialist.cli.install import CLIENTS
from tests.cli.specialists_command import call

KEY = "sk-ant-not-a-real-key-0123456789"
CODEX = Path("home/.codex/config.toml")


@pytest.fixture(autouse=True)
def _own_home(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give each test a home folder inside of its project, and a key that no file may contain."""
    monkeypatch.setenv("HOME", str(project / "home"))
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    monkeypatch.delenv("CODEX_HOME", raising=False)
    (project / "home").mkdir()


def place(client: str) -> Path:
    """Return the configuration of a client."""
    return Path(CLIENTS[client].file.replace("~", "home"))


def servers(client: str, text: str):
    """Return the servers in a configuration."""
    held = (tomllib.loads if client == "codex" else json.loads)(text)
    for key in CLIENTS[client].keys:
        held = held[key]
    return held


@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_gets_an_entry_in_its_own_format(client: str, project: Path) -> None:
    """The command is absolute, the project is named where the file is its own, and keys appear by name at most."""
    result = call("install", client, "--yes")
    assert result.exit_code == 0, result.stderr
    text = place(client).read_text()
    assert KEY not in text + result.output
    assert "+" in result.stdout.splitlines()[4]
    entry = servers(client, text)["specialists"]
    words = entry["command"] if client == "opencode" else [entry["command"], *entry["args"]]
    assert os.access(words[0], os.X_OK)
    assert Path(words[0]).is_absolute()
    ends = ["specialists", "mcp", *(() if client == "codex" else ("--root", str(project)))]
    assert [Path(words[-len(ends)]).name, *words[1 - len(ends) :]] == ends
    others = {key: value for key, value in entry.items() if key not in {"command", "args"}}
    assert (
        others
        == {
            "claude-code": {"type": "stdio"},
            "codex": {"env_vars": ["ANTHROPIC_API_KEY"], "startup_timeout_sec": 30, "tool_timeout_sec": 900},
            "gemini": {"env": {"ANTHROPIC_API_KEY": "$ANTHROPIC_API_KEY"}, "timeout": 900_000},
            "vscode": {"type": "stdio"},
            "cursor": {"env": {"ANTHROPIC_API_KEY": "${env:ANTHROPIC_API_KEY}"}, "type": "stdio"},
            "opencode": {"type": "local"},
        }[client]
    )


OWN_JSON = (
    '{"mcpServers":{"a":{"command":"x","args":["1","2"]}},"b":[1]}',
    '{\n\t"b": "\\"mcpServers\\": {",\n\t"mcpServers": {\n\t\t"a": {"args": ["1", "2"]}\n\t}\n}\n',
    '{\r\n    "mcpServers": {\r\n        "a": {}\r\n    }\r\n}',
    '{"mcpServers": {"nested": {"mcpServers": {}}}, "specialists": {"mcp": 1}}\n',
)


@pytest.mark.parametrize("before", OWN_JSON)
def test_all_other_bytes_of_a_json_file_stay(before: str) -> None:
    """Whatever its layout, an entry is added, found again, replaced, and removed; then the file is what it was."""
    path = Path(".mcp.json")
    path.write_bytes(before.encode())
    path.chmod(0o640)
    assert call("install", "claude-code", "--yes").exit_code == 0
    added = path.read_bytes().decode()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert json.loads(added) != json.loads(before)
    assert "nothing to change" in call("install", "claude-code").stderr
    path.write_bytes(added.replace('--root", "', '--root", "/moved').replace("\n\n", "\n").encode())
    assert call("install", "claude-code", "--yes").exit_code == 0
    assert json.loads(path.read_bytes()) == json.loads(added)
    assert call("install", "claude-code", "--remove", "--yes").exit_code == 0
    assert path.read_bytes().decode() == before
    assert call("install", "claude-code", "--remove", "--yes").exit_code == 0


@pytest.mark.parametrize("before", ['# mine\nmodel = "m"\n\n[mcp_servers.a]\ncommand = "x" # y\n', 'model = "m"\r\n'])
def test_all_other_bytes_of_a_toml_file_stay(before: str) -> None:
    """The table is appended, found again, and removed."""
    CODEX.parent.mkdir()
    CODEX.write_bytes(before.encode())
    assert call("install", "codex", "--yes").exit_code == 0
    assert CODEX.read_bytes().decode().startswith(before)
    assert "nothing to change" in call("install", "codex").stderr
    assert call("install", "codex", "--remove", "--yes").exit_code == 0
    assert CODEX.read_bytes().decode() == before


REFUSED = {
    "a comment": (".mcp.json", '{\n  // mine\n  "mcpServers": {}\n}\n', "no plain JSON, because of a comment"),
    "a broken file": (".mcp.json", '{"mcpServers": ', "an error in line 1"),
    "an empty file": (".mcp.json", "", "no plain JSON"),
    "a foreign entry": (".mcp.json", '{"mcpServers": {"specialists": {"command": "mine"}}}', "not written by this"),
    "another value": (".mcp.json", '{"mcpServers": []}', "`mcpServers` in it is no table"),
    "an inline table": (str(CODEX), 'mcp_servers = { a = { command = "x" } }\n', "does not allow a change"),
    "a broken table": (str(CODEX), "[mcp_servers\n", "was not changed"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_edited_safely_stays_and_the_lines_are_printed(case: str) -> None:
    """The file is untouched, the reason and the lines to paste are printed, and the exit code is 2."""
    path, before, reason = Path(REFUSED[case][0]), *REFUSED[case][1:]
    path.parent.mkdir(exist_ok=True)
    path.write_text(before)
    client = "codex" if path == CODEX else "claude-code"
    result = call("install", client, "--yes")
    assert result.exit_code == 2
    assert reason in result.stderr
    assert "specialists" in servers(client, result.stdout)
    assert call("install", client, "--remove", "--yes").exit_code == (0 if case == "an inline table" else 2)
    assert path.read_text() == before


def test_only_its_own_entry_is_written_and_only_with_consent(project: Path) -> None:
    """Without a terminal `--yes` is required; an edited entry is not replaced or removed, a link not followed."""
    result = call("install", "gemini", "--dry-run")
    assert (result.exit_code, '+  "mcpServers"' in result.stdout) == (0, True)
    assert call("install", "gemini").exit_code == 2
    assert not Path(".gemini").exists()
    assert "name one of claude-code, codex" in call("install", "emacs").stderr
    path = Path(".mcp.json")
    call("install", "claude-code", "--yes")
    edited = path.read_text().replace('"type"', '"env": {"A": "1"},\n      "type"')
    path.write_text(edited)
    for words in (["--yes"], ["--remove", "--yes"]):
        result = call("install", "claude-code", *words)
        assert result.exit_code == 2
        assert "or was edited since" in result.stderr
    assert path.read_text() == edited
    path.rename("elsewhere.json")
    path.symlink_to("elsewhere.json")
    result = call("install", "claude-code", "--yes")
    assert (result.exit_code, "symlink" in result.stderr, path.is_symlink()) == (2, True, True)


def test_the_plugin_says_when_to_ask_which_specialist(project: Path) -> None:
    """It has a manifest, the server, and a valid skill with each specialist that works; other folders are refused."""
    blocked = "---\nname: far\ndescription: d\npaths: [missing/]\n---\nBody\n"
    (project / "specialists" / "far.md").write_text(blocked)
    for number in range(90):
        (project / f"specialists/finder-{number}.md").write_text("---\ndescription: d\n---\nBody\n")
    assert call("install", "claude-code", "--plugin", "own/plugin", "--yes").exit_code == 0
    folder = Path("own/plugin")
    assert json.loads((folder / ".claude-plugin/plugin.json").read_text())["name"] == "specialists"
    assert "specialists" in servers("claude-code", (folder / ".mcp.json").read_text())
    skill = frontmatter.loads((folder / "skills/ask-specialists/SKILL.md").read_text())
    assert (skill["name"], len(skill["description"]) <= 1024) == ("ask-specialists", True)
    assert "- `finder`: Finds notes" in skill.content
    assert "`far`" not in skill.content
    assert "nothing to change" in call("install", "claude-code", "--plugin", str(folder)).stderr
    for words in (["specialists"], ["own/plugin", "--remove"]):
        assert call("install", "claude-code", "--yes", "--plugin", *words).exit_code == 2

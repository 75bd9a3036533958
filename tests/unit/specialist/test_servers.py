"""MCP servers named in files: accepted forms, invalid entries, variables, display and trust."""

import json
from pathlib import Path
from typing import Any

import pytest

from run_specialist.specialist.fields import Specialist
from run_specialist.specialist.loader import load_text
from run_specialist.specialist.mcp_servers import ServerConfig, servers_of, without_secrets
from run_specialist.specialist.settings import ResolvedSettings, settings_of

HERE = Path("/nowhere")


def read(value: Any, root: Path = HERE) -> dict[str, ServerConfig]:
    """Return the servers of a specialist that was created in Python."""
    specialist = Specialist(name="s", description="", prompt="", mcp_servers=value)
    return dict(servers_of(specialist, root))


def one(**entry: Any) -> ServerConfig:
    """Return the only server of a specialist."""
    return read({"it": entry})["it"]


def project(folder: Path, servers: object) -> Path:
    """Create a project that lists servers, and return a folder inside it."""
    (folder / ".git").mkdir()
    (folder / ".mcp.json").write_text(json.dumps({"mcpServers": servers}))
    (folder / "specialists").mkdir()
    return folder / "specialists"


@pytest.mark.parametrize(
    "value",
    [
        {"web": {"command": "npx", "args": ["-y", "web", 8080]}},
        {"web": {"command": "npx -y web 8080"}},
        {"web": {"command": ["npx", "-y"], "args": ["web", "8080"], "type": "stdio", "alwaysAllow": ["x"]}},
        [{"web": {"command": "npx -y web 8080"}}],
        [{"name": "web", "command": "npx -y web 8080"}],
        {"web": {"command": "npx -y web 8080", "disabled": False}},
    ],
)
def test_a_command_is_accepted_in_every_form(value: Any) -> None:
    """A map by name or a list of maps is accepted; a command is a shell-like string or a list, numbers included."""
    assert read(value) == {"web": ServerConfig("web", ("npx", "-y", "web", "8080"))}


@pytest.mark.parametrize(
    "value",
    [
        {"web": {"url": "https://example.org/mcp"}},
        {"web": "https://example.org/mcp"},
        {"web": {"httpUrl": "https://example.org/mcp", "type": "http"}},
        {"web": {"serverUrl": "https://example.org/mcp", "transport": "streamable-http"}},
    ],
)
def test_a_url_is_accepted_under_every_key(value: Any) -> None:
    """Other programs' names for the URL key are accepted."""
    assert read(value) == {"web": ServerConfig("web", url="https://example.org/mcp")}


def test_environment_headers_folder_and_timeout_are_read() -> None:
    """Environment and header values are read as text; working folder and timeout are read too."""
    server = one(command="x", env={"PORT": 80, "DEBUG": True, "NONE": None}, cwd="sub", timeout=5)
    assert (server.env, server.cwd, server.timeout) == ((("DEBUG", "true"), ("NONE", ""), ("PORT", "80")), "sub", 5.0)
    assert one(url="http://h/", headers={"X-Key": "${KEY}"}).headers == (("X-Key", "${KEY}"),)


MISFITS = [
    ({}, "has no command and no url"),
    ({"command": "x", "url": "http://h/"}, "has both a command and a url"),
    ({"command": "x", "transport": "sse"}, "type must be stdio or http"),
    ({"url": "ftp://h/"}, "url must be an http:// or https:// URL"),
    ({"command": "x", "args": "y"}, "args must be a list of texts"),
    ({"command": [None]}, "command must be a command with its arguments"),
    ({"command": "'x"}, "command must be a command with its arguments"),
    ({"command": "x", "env": ["A=1"]}, "env must be a map of names to texts"),
    ({"url": "http://h/", "headers": "x"}, "headers must be a map of names to texts"),
    ({"command": "x", "cwd": 5}, "cwd must be a folder"),
    *(({"command": "x", "timeout": one}, "timeout must be above 0 and at most 600 seconds") for one in (601, 0, True)),
]


@pytest.mark.parametrize(("entry", "why"), MISFITS)
def test_an_invalid_entry_is_unusable_with_a_reason(entry: dict[str, Any], why: str) -> None:
    """An invalid entry is kept as unusable, with the reason and without a command or URL."""
    server = one(**entry)
    assert server.unusable.startswith(why)
    assert (server.command, server.url, server.is_loopback) == (None, None, False)
    assert str(server) == server.unusable


def test_a_disabled_server_is_removed() -> None:
    """`disabled: true` or `enabled: false`, as other programs write it, removes the server."""
    assert read({"a": {"command": "x", "disabled": True}, "b": {"command": "x", "enabled": False}}) == {}


def test_names_are_normalized_to_the_characters_of_tool_names() -> None:
    """Characters not allowed in tool names become `_`; a second server with the same result is reported."""
    servers = read({"my server": {"command": "x"}, "my.server": {"command": "y"}, "ünï": {"command": "z"}})
    assert [(key, server.name, server.command) for key, server in servers.items()] == [
        ("my_server", "my_server", ("x",)),
        ("my.server", "my_server", None),
        ("n", "n", ("z",)),
    ]
    assert servers["my.server"].unusable == "my.server has the same normalized name as another server, my_server"


def test_a_bare_name_is_looked_up_in_the_project(tmp_path: Path) -> None:
    """A bare name is looked up from any folder of the project; its source is kept, as it needs its own trust."""
    inside = project(tmp_path, {"web": {"command": "x"}, "off": {"command": "y", "disabled": True}})
    source = tmp_path / ".mcp.json"
    for value in (["web", "off"], {"web": None}, [{"name": "web"}]):
        assert read(value, inside) == {"web": ServerConfig("web", ("x",), source=source)}
    there = read(["wed"], inside)["wed"].unusable
    assert there == f"{source} has no server of this name; available: web, off"


def test_a_bare_name_is_not_looked_up_outside_the_project(tmp_path: Path) -> None:
    """A `.mcp.json` above the folder with `.git` is outside the project and ignored."""
    (tmp_path / ".mcp.json").write_text('{"mcpServers": {"web": {"command": "x"}}}')
    (tmp_path / "inner" / ".git").mkdir(parents=True)
    assert read(["web"], tmp_path / "inner")["web"].unusable.startswith("has neither a command nor a url")


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"{", "is not valid JSON"),
        (b"\xff\xfe\x00", "is not valid JSON"),
        (b'{"mcpServers": 5}', "has no map mcpServers"),
        (b" " * (1024 * 1024 + 1), "is larger than 1,024 KiB"),
        (b"[" * 100_000, "is not valid JSON"),
    ],
)
def test_a_damaged_mcp_json_is_named(tmp_path: Path, content: bytes, why: str) -> None:
    """The error names the path of a damaged `.mcp.json` and the reason."""
    (tmp_path / ".mcp.json").write_bytes(content)
    assert read(["web"], tmp_path)["web"].unusable == f"{tmp_path / '.mcp.json'} {why}"


def test_variables_are_expanded_for_starting() -> None:
    """`${VAR}` and `${VAR:-default}` are expanded in every value; as in a shell, empty also takes the default."""
    server = one(command="${BIN} --key=${KEY:-none} $HOME ${1}", env={"A": "${KEY:-}"}, cwd="${BIN}/x")
    filled = server.expanded({"BIN": "/bin/x", "KEY": ""})
    assert filled.command == ("/bin/x", "--key=none", "$HOME", "${1}")
    assert (filled.env, filled.cwd) == ((("A", ""),), "/bin/x/x")
    web = one(url="https://${HOST}/mcp", headers={"Authorization": "Bearer ${KEY}"})
    filled = web.expanded({"HOST": "h", "KEY": "k"})
    assert (filled.url, filled.headers) == ("https://h/mcp", (("Authorization", "Bearer k"),))
    with pytest.raises(ValueError, match="the environment variable KEY is not set"):
        web.expanded({"HOST": "h"})


def test_the_displayed_server_contains_no_secrets() -> None:
    """The displayed server contains no variable or header values, passwords, query or keys."""
    command = one(command=["run", "--token", "sk-" + "a" * 30, "two words"], env={"KEY": "geheim"}, cwd="sub")
    assert str(command) == "run --token [redacted] 'two words', with KEY set, in sub"
    web = one(url="https://me:geheim@example.org:8/mcp?key=geheim#x", headers={"X": "geheim"})
    assert str(web) == "https://example.org:8/mcp"
    assert "\x1b" not in str(one(command="run \x1b[31m"))


@pytest.mark.parametrize(
    ("entry", "loopback"),
    [
        ({"url": "http://localhost:8/mcp"}, True),
        ({"url": "http://127.1.2.3/mcp"}, True),
        ({"url": "http://[::1]:8/mcp"}, True),
        ({"url": "http://localhost.example.org/"}, False),
        ({"url": "http://localhost@example.org/"}, False),
        ({"url": "http://127.0.0.1.example.org/"}, False),
        ({"url": "http://[::1/"}, False),
        ({"url": "${URL}"}, False),
        ({"url": "http://localhost${REST}/"}, False),
        ({"url": "http://${WHO}@localhost/"}, False),
        ({"url": "http://localhost:${PORT}/"}, False),
        ({"url": "http://localhost:8/${PATH}"}, True),
        ({"url": "http://me:word@localhost:8/"}, True),
        ({"url": "http://[::1].example.org/"}, False),
        ({"url": "http://example.org[::1]/"}, False),
    ],
)
def test_loopback_urls_are_recognized(entry: dict[str, Any], loopback: bool) -> None:
    """Loopback URLs, which bypass the proxy, are recognized; a variable in host or port rules it out."""
    assert one(**entry).is_loopback is loopback


def test_the_fingerprint_covers_everything_that_is_trusted(tmp_path: Path) -> None:
    """The fingerprint covers command, env, headers and folder, but not where the server is defined."""
    entries = [
        {"command": "x"}, {"command": "y"}, {"command": "x", "env": {"A": "1"}}, {"command": "x", "env": {"A": "2"}},
        {"command": "x", "cwd": "y"}, {"url": "http://h/"}, {"url": "http://h/", "headers": {"A": "1"}},
    ]  # fmt: skip
    assert len({one(**entry).fingerprint for entry in entries}) == len(entries)
    inside = project(tmp_path, {"it": {"command": "x"}})
    assert read(["it"], inside)["it"].fingerprint == one(command="x").fingerprint


def file_of(*lines: str, path: Path = HERE / "finder.md") -> Any:
    """Load a file with these lines of front matter, which begin on line 4."""
    return load_text("\n".join(["---", "name: finder", "description: Finds", *lines, "---", "Find."]), path)


def test_an_invalid_entry_is_reported_at_its_line_and_ignored() -> None:
    """An invalid entry is reported at its own line and column and ignored; the others are kept."""
    file = file_of(
        "mcp_servers:", "  web:", "    command: npx", "  two:", "    args: [x]", "  old: {url: 'http://h/', type: sse}"
    )
    assert [str(problem).partition("finder.md:")[2] for problem in file.problems] == [
        "7:3: mcp_servers: two: has no command and no url; ignored",
        "9:3: mcp_servers: old: type must be stdio or http; ignored",
    ]
    assert (file.status, list(file.specialist.mcp_servers)) == ("warning", ["web"])
    file = file_of("mcp_servers:", "  - {name: web, command: npx}", "  - {name: two}", "  - 5", "  - web: {command: 5}")
    assert [(problem.line, problem.text.partition(":")[0]) for problem in file.problems] == [(7, "5"), (8, "web")]


def test_an_unknown_server_name_is_reported(tmp_path: Path) -> None:
    """An unknown server name is reported if the file's project is known; a file outside any project is not checked."""
    inside = project(tmp_path, {"web": {"command": "x"}})
    file = file_of("mcp_servers: [web, wed]", path=inside / "finder.md")
    (problem,) = file.problems
    told = f"{tmp_path}/.mcp.json has no server of this name; available: web; ignored"
    assert str(problem) == f"{inside}/finder.md:4:20: mcp_servers: wed: {told}"
    assert file.specialist.mcp_servers == ["web"]
    (tmp_path / ".mcp.json").unlink()
    assert file_of("mcp_servers: web", path=inside / "finder.md").status == "warning"
    assert file_of("mcp_servers: web").status == "ok"


def test_literal_secrets_are_masked_in_displayed_settings():
    """Literal env and header values, keys in commands and URL passwords are masked, in maps and lists."""
    clear = {
        "a": {"command": "x", "args": ["--key", "sk-" + "a1" * 20], "env": {"KEY": "plain", "OTHER": "${OTHER}"}},
        "b": {"url": "https://me:secret7@host/mcp", "headers": {"X-Key": "plain"}},
    }
    masked = {
        "a": {"command": "x", "args": ["--key", "[redacted]"], "env": {"KEY": "[redacted]", "OTHER": "${OTHER}"}},
        "b": {"url": "https://me:[redacted]@host/mcp", "headers": {"X-Key": "[redacted]"}},
    }
    assert without_secrets(clear) == masked
    assert without_secrets([clear, "c"]) == [masked, "c"]
    specialist = Specialist(name="n", description="d", prompt="p", mcp_servers=clear)
    (shown,) = (one for one in settings_of(ResolvedSettings(specialist, {})) if one.key == "mcp_servers")
    assert "plain" not in str(shown.value)


def test_a_misspelt_server_key_is_reported():
    """A misspelt server key is reported with its line and a suggestion; other programs' keys are ignored."""
    text = "---\nname: n\ndescription: d\nmcp_servers:\n  owls: {command: x, arg: [y], autoApprove: [z]}\n---\nP.\n"
    (problem,) = load_text(text, Path("n.md")).problems
    assert str(problem).startswith("n.md:5:3: mcp_servers: owls: arg: unknown key; did you mean args?")


def test_an_entry_that_is_no_map_is_unusable() -> None:
    """An entry that is not a map is unusable, because a string could be a command or a name."""
    for entry in (5, "npx", [1]):
        assert read({"it": entry})["it"].unusable.startswith("must be a map")


def test_a_command_with_separate_args_is_not_split() -> None:
    """Only a command without `args` is split as in a shell, because a program's path may contain blanks."""
    assert one(command="/opt/my server", args=[]).command == ("/opt/my server",)
    assert one(command="'/opt/my server' -v").command == ("/opt/my server", "-v")

"""Misbehaving MCP server processes: each fault causes one warning or one error result."""

import asyncio
import re
import sys
from pathlib import Path

import pytest

from run_specialist.installation import adding
from run_specialist.specialist.mcp_servers import ServerConfig
from run_specialist.tools.mcp_session import LONGEST_RESULT
from tests.unit.tools.mcp_configs import good
from tests.wire.mcp_servers.running_servers import connected, raw, running, until

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="processes are looked up in /proc"),
]


@pytest.mark.exhaustive(one_in=5)
@pytest.mark.parametrize(
    ("how", "why"),
    [
        ("exits", r"it exited with code 1, saying: boo \\x1b\[31m failed"),
        ("leaks", r"it exited with code 1, saying: refused: \[redacted\]"),
        ("children", "it exited with code 1, saying: the child goes on"),
        ("listless", "its list of tools is not what the protocol wants: tools: Input should be a valid list"),
        ("silent", "it did not tell its tools within 2 seconds"),
    ],
)
async def test_a_server_that_does_not_start_is_a_warning(tmp_path, how, why):
    """A server that fails to start causes a warning with its last output, escaped to printable text.

    The other servers keep their tools, and no process is left.
    """
    marker = tmp_path / "marker"
    async with connected(tmp_path, raw(how, marker, timeout=2 if how == "silent" else 30), good(tmp_path)) as one:
        assert re.fullmatch(f"mcp_servers: raw: {why}; the run continues without its tools", one.warnings[0])
        assert "add" in one.tools
    assert running(marker) == []
    if how == "children":
        assert int(marker.read_text()) not in running("time.sleep(600)")


async def test_a_server_that_exits_during_connection_is_not_waited_for(tmp_path, monkeypatch):
    """A server that exits before its pipes are connected is not waited for, even if its child keeps them open.

    On a busy machine, a server may exit while its pipes are being connected.
    """
    loop = asyncio.get_running_loop()
    whole = loop.subprocess_exec

    async def late(*given, **named):
        transport, protocol = await whole(*given, **named)
        await until(lambda: transport.get_returncode() is not None and protocol._process_exited)
        return transport, protocol

    monkeypatch.setattr(loop, "subprocess_exec", late)
    async with connected(tmp_path, raw("children", tmp_path / "marker", timeout=30)) as one:
        assert "it exited with code 1, saying: the child goes on; the run continues" in one.warnings[0]


async def test_invalid_cache_fields_do_not_remove_tools(tmp_path):
    """Invalid cache fields of a newer protocol (`ttlMs`, `cacheScope`) in a tool list do not cost any tool.

    The library ignores these fields.
    """
    async with connected(tmp_path, raw("hasty", tmp_path / "marker")) as one:
        assert one.warnings == ()
        assert await one.call("look") == "seen"


TORN = ", ".join([*(f"torn0{number}" for number in range(7)), *(f"torn1{number}" for number in range(3))])
NO_SCHEMA = "inputSchema: Input should be a valid dictionary or instance of InputSchema"


@pytest.mark.parametrize(
    ("how", "what", "why", "it"),
    [
        ("untyped", "tool look is", "inputSchema.type: Field required", "it"),
        ("nameless", "tool number 2 is", "name: Input should be a valid string", "it"),
        ("worn", f"tools {TORN} and 5 more are", NO_SCHEMA, "them"),
    ],
)
async def test_an_invalid_tool_is_omitted_with_a_warning(tmp_path, how, what, why, it):
    """One warning names the invalid tools that are omitted; the server's other tools can be called."""
    async with connected(tmp_path, raw(how, tmp_path / "marker")) as one:
        told = f"mcp_servers: raw: its {what} not what the protocol wants: {why}; the run continues without {it}"
        assert one.warnings == (told,)
        assert list(one.tools) == ([] if how == "untyped" else ["look"])
        if one.tools:
            assert await one.call("look") == "seen"


async def test_a_program_that_cannot_be_started_causes_a_warning(tmp_path):
    """A program that is missing, by name or by path, not executable, or in an unknown format causes a warning."""
    (tmp_path / "plain.sh").write_text("#!/bin/sh\n")
    (tmp_path / "data").write_bytes(b"\x00\x01")
    (tmp_path / "data").chmod(0o755)
    names = ["no-such-program-here", "./nowhere.sh", "./plain.sh", "./data", "a\0b"]
    servers = [ServerConfig(f"s{number}", (name,)) for number, name in enumerate(names)]
    async with connected(tmp_path, *servers) as one:
        assert [warning.split(": ", 2)[2].partition(";")[0] for warning in one.warnings] == [
            "there is no program no-such-program-here",
            "there is no program ./nowhere.sh",
            "./plain.sh cannot be started: Permission denied",
            "./data cannot be started: Exec format error",
            "embedded null byte",
        ]
    assert one.tools == {}


async def test_an_unset_variable_causes_a_warning(tmp_path):
    """An unset environment variable causes a warning that names it, and nothing is started."""
    async with connected(tmp_path, good(tmp_path, env=(("KEY", "${NO_SUCH_VARIABLE}"),))) as one:
        assert "the environment variable NO_SUCH_VARIABLE is not set" in one.warnings[0]


async def test_a_missing_mcp_extra_names_the_install_command(tmp_path, monkeypatch):
    """Without the `mcp` extra, the warning names the command that adds it to this installation."""
    monkeypatch.setitem(sys.modules, "run_specialist.tools.mcp_session", None)
    async with connected(tmp_path, good(tmp_path)) as one:
        assert f"; {adding('mcp')}; the run continues" in one.warnings[0]
    assert running(tmp_path) == []


@pytest.mark.parametrize("how", ["old", "new"])
async def test_servers_of_both_protocol_generations_work(tmp_path, how):
    """Servers of both protocol generations work.

    The old one exits on any request before `initialize`; the new one no longer accepts `initialize`.
    """
    async with connected(tmp_path, raw(how, tmp_path / "marker")) as one:
        assert one.warnings == ()
        assert await one.call("look") == "seen"
    assert running(tmp_path) == []


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize(
    ("how", "answer"),
    [("garbage", "seen"), ("half", "cut \ufffd"), ("stderr", "seen"), ("large", "x" * LONGEST_RESULT)],
)
async def test_output_beside_the_protocol_is_ignored(tmp_path, how, answer, capfd):
    """Lines that are not messages, 3 MB on stderr and 5 MB in one result do not disturb the call or the terminal."""
    async with connected(tmp_path, raw(how, tmp_path / "marker")) as one:
        assert (await one.call("look"))[:LONGEST_RESULT] == answer
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ("error", "no such thing"),
        ("wrong", "its answer is not what the protocol wants: content: Input should be a valid list"),
        ("invalid", "its answer is no valid message"),
        ("wide", "the server ended before it answered: it sent more than 10 MiB in one message, and was stopped"),
        ("curious", "the server asks for more input, and there is nobody to ask"),
        ("shut", "the server ended before it answered: it closed its output"),
    ],
)
@pytest.mark.exhaustive(one_in=3)
async def test_a_failing_call_is_an_error_result(tmp_path, how, why, capfd):
    """A failing call is an error result each time; a server that had to be stopped is restarted for the next call."""
    async with connected(tmp_path, raw(how, tmp_path / "marker")) as one:
        assert [await one.call("look") for _ in range(2)] == [f"ToolError: {why}"] * 2
    assert running(tmp_path) == []
    assert capfd.readouterr() == ("", "")


@pytest.mark.exhaustive
@pytest.mark.parametrize(("how", "taken"), [("many", 1000), ("endless", 100), ("none", 0)])
async def test_lists_of_tools_are_bounded(tmp_path, how, taken):
    """Lists of 10,000 tools and endless pages are cut with a warning; an empty list causes none."""
    async with connected(tmp_path, raw(how, tmp_path / "marker")) as one:
        assert len(one.tools) == taken
        told = f"mcp_servers: raw: it lists too many tools; only the first {taken:,} are used"
        assert one.warnings == ((told,) if taken else ())


async def test_invalid_schemas_are_fixed_and_colliding_names_reported(tmp_path):
    """The first of two definitions of a name is used, and colliding names are renamed with a warning.

    `same.name` and `same_name` get one name each.
    """
    async with connected(tmp_path, raw("odd", tmp_path / "marker")) as one:
        assert list(one.tools)[:5] == ["any", "bare", "broken", "key", "same_name"]
        (warning,) = one.warnings
        renamed = r"raw: same_name is renamed to mcp__raw__same_name_\w{8}, because another tool already has that name"
        assert re.search(renamed, warning)
        assert all(tool.input_schema["type"] == "object" for tool in one.tools.values())


async def test_requests_from_a_server_are_refused(tmp_path):
    """Roots, sampling and elicitation are refused, a ping is answered, and notifications are ignored."""
    async with connected(tmp_path, raw("asks", tmp_path / "marker")) as one:
        assert (await one.call("look")).split("; ") == [
            "roots/list: List roots not supported",
            "sampling/createMessage: Sampling not supported",
            "elicitation/create: Elicitation not supported",
            "ping: granted",
        ]

"""MCP server processes: start, calls and end; each fault is one warning or one error result; none is left behind."""

import asyncio
import contextlib
import os
import re
import signal
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from run_specialist.installation import adding
from run_specialist.specialist.mcp_servers import ServerConfig
from run_specialist.tools.mcp import McpClients
from run_specialist.tools.mcp_session import LONGEST_RESULT
from tests.forked_program import run_forked
from tests.wire.mcp_servers.running_servers import connected, good, raw, running, script, until

pytestmark = [
    pytest.mark.exhaustive,
    pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="processes are looked up in /proc"),
]


async def test_simultaneous_callers_share_one_process(tmp_path):
    """Five callers that start at the same time share one server process, as does a later run; nothing is left of it."""
    before = asyncio.all_tasks()
    clients = McpClients()
    wanted = {"raw": raw("hasty", tmp_path)}
    found = await asyncio.gather(*(clients.tools(wanted, root=tmp_path) for _ in range(5)))
    found.append(await clients.tools(wanted, root=tmp_path))
    assert [len(tools) for tools, _ in found] == [1] * 6
    assert len(running(tmp_path)) == 1
    await clients.aclose()
    assert running(tmp_path) == []
    assert asyncio.all_tasks() == before


async def test_a_good_server_answers_calls_of_all_kinds(tmp_path):
    """Calls run concurrently or time out, and are then cancelled; errors are ToolErrors, and odd names are cleaned."""
    marker = tmp_path / "stopped"
    async with connected(tmp_path, good(tmp_path, env=(("STOPPED", str(marker)),))) as one:
        assert one.warnings == ()
        tool = one.tools["add"]
        assert (tool.name, tool.description, tool.repeatable) == ("mcp__good__add", "Add two numbers.", False)
        assert set(tool.input_schema["properties"]) == {"a", "b"}
        assert await one.call("slow", within=0.2, seconds=60) == "nothing"
        await until(marker.exists)
        slow = asyncio.create_task(one.call("slow", seconds=60))
        (odd,) = [name for name in one.tools if name.startswith("odd")]
        assert len(f"mcp__good__{odd}") <= 64
        assert await one.call(odd) == "odd"
        assert (await one.call("fail")).startswith("ToolError: Error executing tool fail")
        assert "valid integer" in await one.call("add", a="x", b=1)
        assert "half a character" in await one.call("add", a="\ud800", b=1)
        assert "a number that is none" in await one.call("add", a=float("nan"), b=1)
        assert (await one.call("mixed")).splitlines() == [
            "a text",
            "[left out, since only text is read: image, image/png, 1,200 bytes]",
            "[left out, since only text is read: audio, audio/wav, 1,200 bytes]",
            "[resource: owls, About owls, file:///owls.md]",
            "[resource: file:///mice.md]",
            "About mice",
        ]
        assert "3" in await one.call("structured")
        assert await one.call("add", a=1, b=1) == "2"
        assert not slow.done()
        slow.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await slow


async def test_the_server_gets_a_minimal_environment(tmp_path, monkeypatch):
    """It has the configured variables, no keys of the caller, its own process group, and `cwd` below the root."""
    cache, inner = tmp_path.parent / "cache", tmp_path / "inner"
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    monkeypatch.setenv("ANTHROPIC_API_KEY", "geheim")
    monkeypatch.setenv("OWL", "hoot")
    inner.mkdir()
    program = tmp_path / "program.sh"
    program.write_text(f"#!/bin/sh\nenv > seen\nexec {' '.join(script('raw', 'hasty', str(tmp_path)))}\n")
    program.chmod(0o755)
    server = ServerConfig("raw", (str(program),), env=(("SAYS", "${OWL} ${TOAD:-croak}"),), cwd="inner")
    async with connected(tmp_path, server) as one:
        assert one.warnings == ()
        (process,) = running(tmp_path)
        assert os.getpgid(process) == process != os.getpgid(0)
    told = (inner / "seen").read_text().splitlines()
    assert "SAYS=hoot croak" in told
    assert "geheim" not in str(told)
    if sys.platform == "linux":
        assert f"PYTHONPYCACHEPREFIX={cache / 'run-specialist' / 'pycache'}" in told
    names = {line.partition("=")[0] for line in told} - {"PYTHONPYCACHEPREFIX", "PWD", "OLDPWD", "SHLVL", "_"}
    assert names <= {"SAYS", "HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "LC_CTYPE"}


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
    """A server that fails to start causes a warning with its last output, escaped to printable text."""
    marker = tmp_path / "marker"
    other = replace(raw("hasty", tmp_path / "other"), name="other")
    async with connected(tmp_path, raw(how, marker, timeout=2 if how == "silent" else 30), other) as one:
        assert re.fullmatch(f"mcp_servers: raw: {why}; the run continues without its tools", one.warnings[0])
        assert "look" in one.tools
    assert running(marker) == []
    if how == "children":
        assert int(marker.read_text()) not in running("time.sleep(600)")


async def test_a_server_that_exits_during_connection_is_not_waited_for(tmp_path, monkeypatch):
    """A server that exits before its pipes are connected is not waited for, even if its child keeps them open."""
    loop = asyncio.get_running_loop()
    whole = loop.subprocess_exec

    async def late(*given, **named):
        transport, protocol = await whole(*given, **named)
        await until(lambda: transport.get_returncode() is not None and protocol._process_exited)
        return transport, protocol

    monkeypatch.setattr(loop, "subprocess_exec", late)
    async with connected(tmp_path, raw("children", tmp_path / "marker", timeout=30)) as one:
        assert "it exited with code 1, saying: the child goes on; the run continues" in one.warnings[0]


TORN = ", ".join([*(f"torn0{number}" for number in range(7)), *(f"torn1{number}" for number in range(3))])
NO_SCHEMA = "inputSchema: Input should be a valid dictionary or instance of InputSchema"


@pytest.mark.parametrize(
    ("how", "what", "why"),
    [
        ("untyped", "look", "inputSchema.type: Field required"),
        ("nameless", "number 2", "name: Input should be a valid string"),
        ("worn", f"{TORN} and 5 more", NO_SCHEMA),
    ],
)
async def test_an_invalid_tool_is_omitted_with_a_warning(tmp_path, how, what, why):
    """One warning names the invalid tools that are omitted; the server's other tools can be called."""
    async with connected(tmp_path, raw(how, tmp_path / "marker")) as one:
        told = (
            f"mcp_servers: raw: its tools {what} are not what the protocol wants: {why}; the run continues without them"
        )
        assert one.warnings == (told,)
        assert list(one.tools) == ([] if how == "untyped" else ["look"])
        if one.tools:
            assert await one.call("look") == "seen"


async def test_a_program_that_cannot_be_started_causes_a_warning(tmp_path):
    """A program that is missing, not executable or in an unknown format causes a warning.

    So do a missing `cwd`, and an unset environment variable, which is named.
    """
    (tmp_path / "plain.sh").write_text("#!/bin/sh\n")
    (tmp_path / "data").write_bytes(b"\x00\x01")
    (tmp_path / "data").chmod(0o755)
    names = ["no-such-program-here", "./nowhere.sh", "./plain.sh", "./data", "a\0b"]
    servers = [ServerConfig(f"s{number}", (name,)) for number, name in enumerate(names)]
    servers.append(ServerConfig("outer", ("sh",), cwd="outer"))
    servers.append(ServerConfig("unset", ("sh",), env=(("KEY", "${NO_SUCH_VARIABLE}"),)))
    async with connected(tmp_path, *servers) as one:
        assert [warning.split(": ", 2)[2].partition(";")[0] for warning in one.warnings] == [
            "no-such-program-here cannot be started: No such file or directory",
            "./nowhere.sh cannot be started: No such file or directory",
            "./plain.sh cannot be started: Permission denied",
            "./data cannot be started: Exec format error",
            "embedded null byte",
            f"there is no folder {tmp_path / 'outer'}",
            "the environment variable NO_SUCH_VARIABLE is not set",
        ]
    assert one.tools == {}


async def test_a_missing_mcp_extra_names_the_install_command(tmp_path, monkeypatch):
    """Without the `mcp` extra, the warning names the command that adds it to this installation."""
    monkeypatch.setitem(sys.modules, "run_specialist.tools.mcp_session", None)
    async with connected(tmp_path, good(tmp_path)) as one:
        assert f"; {adding('mcp')}; the run continues" in one.warnings[0]
    assert running(tmp_path) == []


@pytest.mark.parametrize(
    ("how", "answer"),
    [
        *(("old", "seen"), ("garbage", "seen"), ("stderr", "seen"), ("new", "seen"), ("half", "cut \ufffd")),
        *(("large", "x" * LONGEST_RESULT), ("hasty", "seen"), ("deaf", "seen")),
    ],
    ids=lambda value: value[:9],
)
async def test_a_server_that_only_behaves_oddly_can_be_called(tmp_path, how, answer, capfd):
    """Both generations of the protocol, and whatever is beside it, disturb neither the call nor the terminal.

    That is: lines that are no messages, invalid cache fields (`ttlMs`, `cacheScope`) of a list, 3 MB on stderr, 5 MB
    in one result, half a character. A server that ignores the end of its input and SIGTERM is killed.
    """
    async with connected(tmp_path, raw(how, tmp_path / "marker")) as one:
        assert one.warnings == ()
        assert (await one.call("look"))[:LONGEST_RESULT] == answer
        assert len(running(tmp_path)) == 1
    assert running(tmp_path) == []
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("how", "why", "then"),
    [
        ("dies", "the server ended before it answered: it exited with code 1, saying: out of cheese", "seen"),
        ("error", "no such thing", None),
        ("wrong", "its answer is not what the protocol wants: content: Input should be a valid list", None),
        ("invalid", "its answer is no valid message", None),
        ("wide", "the server ended before it answered: it sent more than 10 MiB in one message, and was stopped", None),
        ("curious", "the server asks for more input, and there is nobody to ask", None),
        ("shut", "the server ended before it answered: it closed its output", None),
    ],
)
async def test_a_failing_call_is_an_error_result(tmp_path, how, why, then, capfd):
    """A failing call is an error result each time; a server that died or was stopped is restarted for the next call."""
    told = f"ToolError: {why}"
    async with connected(tmp_path, raw(how, tmp_path / "marker")) as one:
        assert [await one.call("look") for _ in range(2)] == [told, then or told]
    assert running(tmp_path) == []
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(("how", "taken"), [("many", 1000), ("endless", 100), ("none", 0)])
async def test_lists_of_tools_are_bounded(tmp_path, how, taken):
    """Lists of 2,000 tools and endless pages are cut with a warning; an empty list causes none."""
    async with connected(tmp_path, raw(how, tmp_path / "marker")) as one:
        assert len(one.tools) == taken
        told = f"mcp_servers: raw: it lists too many tools; only the first {taken:,} are used"
        assert one.warnings == ((told,) if taken else ())


async def test_requests_from_a_server_are_refused(tmp_path):
    """Roots, sampling and elicitation are refused, a ping is answered, and notifications are ignored."""
    async with connected(tmp_path, raw("asks", tmp_path / "marker")) as one:
        assert (await one.call("look")).split("; ") == [
            "roots/list: List roots not supported",
            "sampling/createMessage: Sampling not supported",
            "elicitation/create: Elicitation not supported",
            "ping: granted",
        ]


async def test_a_server_that_closes_its_input_fails_calls_at_once(tmp_path):
    """A call fails without waiting if the server closed its input, even if its process still runs."""
    marker = tmp_path / "marker"
    async with connected(tmp_path, raw("numb", marker)) as one:
        await until(marker.exists)
        told = "ToolError: the server ended before it answered: it takes no more requests"
        assert await one.call("look") == told
    assert running(marker) == []


async def test_a_server_that_never_answers_is_limited_by_the_call_timeout(tmp_path):
    """A server that never answers costs only the call's timeout; it keeps running and can be called again."""
    async with connected(tmp_path, raw("mute", tmp_path / "marker")) as one:
        assert [await one.call("look", within=0.2) for _ in range(2)] == ["nothing"] * 2


async def test_a_failed_restart_is_not_retried_at_each_call(tmp_path):
    """After a failed restart, each call gets the reason without a new attempt; the next run tries again."""
    program = tmp_path / "program.sh"
    program.write_text(f"#!/bin/sh\nexec {' '.join(script('raw', 'wide', str(tmp_path)))}\n")
    program.chmod(0o755)
    server = ServerConfig("raw", (str(program),))
    async with connected(tmp_path, server) as one:
        program.rename(tmp_path / "gone.sh")
        assert "was stopped" in await one.call("look")
        gone = f"ToolError: the server is gone, and could not be started again: {program} cannot be started: "
        gone += "No such file or directory"
        assert await one.call("look") == gone
        (tmp_path / "gone.sh").rename(program)
        assert await one.call("look") == gone
        await one.clients.tools({"raw": server}, root=tmp_path)
        assert "was stopped" in await one.call("look")


async def test_cancelling_during_a_server_start_leaves_no_process(tmp_path):
    """Cancelling a caller while a server starts ends its wait immediately, and closing the clients ends the server."""
    clients = McpClients()
    waiting = asyncio.create_task(clients.tools({"raw": raw("silent", tmp_path / "marker")}, root=tmp_path))
    await until(lambda: running(tmp_path))
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await clients.aclose()
    assert running(tmp_path) == []


PROGRAM = """
import asyncio, os, signal, sys
from pathlib import Path
from run_specialist.specialist.mcp_servers import ServerConfig
from run_specialist.tools.mcp import McpClients

async def main():
    tools, warnings = await McpClients().tools({"s": ServerConfig("s", tuple(sys.argv[2:]))}, root=Path.cwd())
    assert len(tools) == 1, warnings
    if sys.argv[1] == "interrupted":
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.sleep(600)

if sys.argv[1] == "abandons":
    loop = asyncio.new_event_loop()
    loop.run_until_complete(main())
    os.write(1, b"left")
else:
    asyncio.run(main())
"""


@pytest.mark.parametrize("how", ["interrupted", "abandons"])
def test_a_program_that_closes_nothing_leaves_no_server(tmp_path, how):
    """A program that is interrupted or drops its event loop leaves no server, though that ignores SIGTERM."""
    command = [sys.executable, "-W", "error", "-c", PROGRAM, how, *script("raw", "deaf", str(tmp_path))]
    done = run_forked(command, capture_output=True, text=True)
    assert done.returncode == {"interrupted": -signal.SIGINT, "abandons": 0}[how], done.stderr
    assert running(tmp_path) == []
    assert "Unknown child" not in done.stderr

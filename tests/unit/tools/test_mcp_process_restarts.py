"""MCP servers that die, hang or are abandoned: restarts, timeouts and cancellation."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from run_specialist.specialist.mcp_servers import ServerConfig
from run_specialist.tools.mcp import McpClients
from tests.unit.tools.mcp_configs import good
from tests.wire.mcp_servers.running_servers import connected, raw, running, script, until

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="processes are looked up in /proc"),
]


@pytest.mark.exhaustive
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


async def test_a_server_that_dies_during_a_call_is_restarted_by_the_next(tmp_path):
    """A server that dies during a call is restarted by the next call.

    The failed call is not repeated, because it may already have had its effect.
    """
    async with connected(tmp_path, raw("dies", tmp_path / "marker")) as one:
        told = "ToolError: the server ended before it answered: it exited with code 1, saying: out of cheese"
        assert await one.call("look") == told
        assert await one.call("look") == "seen"


@pytest.mark.exhaustive
async def test_a_server_killed_between_calls_is_restarted(tmp_path):
    """A server killed between two calls is restarted without an error."""
    async with connected(tmp_path, good(tmp_path)) as one:
        assert await one.call("add", a=1, b=2) == "3"
        (process,) = running(tmp_path)
        os.kill(process, signal.SIGKILL)
        connection = next(iter(one.clients._connections.values()))
        await asyncio.wait_for(connection._session._closed.wait(), 30)
        assert await one.call("add", a=1, b=3) == "4"
        assert process not in running(tmp_path)


async def test_a_failed_restart_is_not_retried_at_each_call(tmp_path):
    """After a failed restart, each call gets the reason without a new attempt; the next run tries again."""
    program = tmp_path / "program.sh"
    program.write_text(f"#!/bin/sh\nexec {' '.join(script('raw', 'wide', str(tmp_path)))}\n")
    program.chmod(0o755)
    server = ServerConfig("raw", (str(program),))
    async with connected(tmp_path, server) as one:
        program.rename(tmp_path / "gone.sh")
        assert "was stopped" in await one.call("look")
        gone = f"ToolError: the server is gone, and could not be started again: there is no program {program}"
        assert await one.call("look") == gone
        (tmp_path / "gone.sh").rename(program)
        assert await one.call("look") == gone
        await one.clients.tools({"raw": server}, root=tmp_path)
        assert "was stopped" in await one.call("look")


@pytest.mark.exhaustive
async def test_a_server_that_ignores_sigterm_is_killed(tmp_path):
    """A server that ignores the end of its input and SIGTERM is killed."""
    async with connected(tmp_path, raw("deaf", tmp_path / "marker")) as one:
        assert await one.call("look") == "seen"
        assert len(running(tmp_path)) == 1
    assert running(tmp_path) == []


@pytest.mark.exhaustive
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


@pytest.mark.exhaustive
async def test_cancelling_one_of_two_callers_keeps_the_server_for_the_other(tmp_path):
    """If two callers wait for the same start and one is cancelled, the other still gets the tools."""
    clients = McpClients()
    first, second = (asyncio.create_task(clients.tools({"good": good(tmp_path)}, root=tmp_path)) for _ in range(2))
    await until(lambda: running(tmp_path))
    first.cancel()
    assert len((await second)[0]) == 10
    with pytest.raises(asyncio.CancelledError):
        await first
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
    if sys.argv[1] == "exits":
        sys.exit(3)

if sys.argv[1] == "abandons":
    loop = asyncio.new_event_loop()
    loop.run_until_complete(main())
    os.write(1, b"left")
else:
    asyncio.run(main())
"""


@pytest.mark.exhaustive(one_in=4)
@pytest.mark.parametrize("how", ["forgets", "interrupted", "exits", "abandons"])
def test_a_program_that_closes_nothing_leaves_no_server(tmp_path, how):
    """A program that never closes its clients leaves no server process.

    It returns, is interrupted, exits, or drops its event loop; its server ignores the end of its input and SIGTERM.
    """
    command = [sys.executable, "-c", PROGRAM, how, *script("raw", "deaf", str(tmp_path))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == {"forgets": 0, "interrupted": -signal.SIGINT, "exits": 3, "abandons": 0}[how], done.stderr
    assert running(tmp_path) == []
    assert "Unknown child" not in done.stderr

"""Well-behaved MCP server processes: start, calls, results and end."""

import asyncio
import contextlib
import os
import sys
from pathlib import Path

import pytest

from run_specialist.tools.mcp import McpClients
from tests.unit.tools.mcp_configs import good
from tests.wire.mcp_servers.running_servers import connected, running, until

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="processes are looked up in /proc"),
]


async def test_a_server_is_started_once_and_leaves_no_process(tmp_path):
    """A server is started once for two runs, and nothing is left of it after the end.

    Its tools are named `mcp__server__tool` and keep their descriptions and schemas.
    """
    before = asyncio.all_tasks()
    async with connected(tmp_path, good(tmp_path)) as one:
        assert one.warnings == ()
        tool = one.tools["add"]
        assert (tool.name, tool.description, tool.repeatable) == ("mcp__good__add", "Add two numbers.", False)
        assert set(tool.input_schema["properties"]) == {"a", "b"}
        assert await one.call("add", a=1, b=2) == "3"
        again, _ = await one.clients.tools({"good": good(tmp_path)}, root=tmp_path)
        assert len(again) == len(one.tools) == 10
        assert len(running(tmp_path)) == 1
    assert running(tmp_path) == []
    assert asyncio.all_tasks() == before


async def test_simultaneous_callers_share_one_process(tmp_path):
    """Five callers that start at the same time share one server process."""
    clients = McpClients()
    wanted = {"good": good(tmp_path)}
    found = await asyncio.gather(*(clients.tools(wanted, root=tmp_path) for _ in range(5)))
    assert [len(tools) for tools, _ in found] == [10] * 5
    assert len(running(tmp_path)) == 1
    await clients.aclose()
    assert running(tmp_path) == []


@pytest.mark.exhaustive
async def test_calls_run_concurrently(tmp_path):
    """Calls run concurrently: a quick call does not wait for a slow one."""
    async with connected(tmp_path, good(tmp_path)) as one:
        slow = asyncio.create_task(one.call("slow", seconds=60))
        assert await one.call("add", a=1, b=2) == "3"
        assert not slow.done()
        slow.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await slow


@pytest.mark.exhaustive
async def test_an_odd_tool_name_is_cleaned_for_the_model_only(tmp_path):
    """The name shown to the model is shortened and cleaned; the call sends the server's own name."""
    async with connected(tmp_path, good(tmp_path)) as one:
        (name,) = [name for name in one.tools if name.startswith("odd")]
        assert len(f"mcp__good__{name}") <= 64
        assert await one.call(name) == "odd"


async def test_the_server_gets_a_minimal_environment(tmp_path, monkeypatch):
    """The server gets a minimal environment without the caller's API keys, plus the configured variables, expanded.

    Its working directory is the project, it has its own process group, and Python looks for compiled modules elsewhere.
    """
    cache = tmp_path.parent / "cache"
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    monkeypatch.setenv("ANTHROPIC_API_KEY", "geheim")
    monkeypatch.setenv("OWL", "hoot")
    server = good(tmp_path, env=(("SAYS", "${OWL} ${TOAD:-croak}"),))
    async with connected(tmp_path, server) as one:
        told = (await one.call("environment")).splitlines()
        (process,) = running(tmp_path)
        assert os.getpgid(process) == process != os.getpgid(0)
    assert f"cwd={tmp_path}" in told
    assert "SAYS=hoot croak" in told
    assert "geheim" not in str(told)
    if sys.platform == "linux":
        assert f"PYTHONPYCACHEPREFIX={cache / 'run-specialist' / 'pycache'}" in told
    names = {line.partition("=")[0] for line in told} - {"PYTHONPYCACHEPREFIX"}
    assert names <= {"cwd", "pid", "SAYS", "HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "LC_CTYPE"}


@pytest.mark.exhaustive
async def test_cwd_is_relative_to_the_root(tmp_path):
    """`cwd` in the configuration is relative to the root; a folder that does not exist causes a warning."""
    (tmp_path / "inner").mkdir()
    async with connected(tmp_path, good(tmp_path, cwd="inner")) as one:
        assert f"cwd={tmp_path / 'inner'}" in await one.call("environment")
    async with connected(tmp_path, good(tmp_path, cwd="outer")) as one:
        assert f"there is no folder {tmp_path / 'outer'}" in one.warnings[0]


@pytest.mark.exhaustive
async def test_content_that_is_no_text_is_described_in_one_line(tmp_path):
    """Images, audio and links are each described in one line; a resource that is text is included."""
    async with connected(tmp_path, good(tmp_path)) as one:
        assert (await one.call("mixed")).splitlines() == [
            "a text",
            "[left out, since only text is read: image, image/png, 1,200 bytes]",
            "[left out, since only text is read: audio, audio/wav, 1,200 bytes]",
            "[resource: owls, About owls, file:///owls.md]",
            "[resource: file:///mice.md]",
            "About mice",
        ]
        assert "3" in await one.call("structured")


@pytest.mark.exhaustive
async def test_server_errors_are_tool_errors_and_the_server_keeps_running(tmp_path):
    """Errors of the tool and arguments the server refuses are ToolErrors; the server keeps running."""
    async with connected(tmp_path, good(tmp_path)) as one:
        assert (await one.call("fail")).startswith("ToolError: Error executing tool fail")
        assert "valid integer" in await one.call("add", a="x", b=1)
        assert "half a character" in await one.call("add", a="\ud800", b=1)
        assert "a number that is none" in await one.call("add", a=float("nan"), b=1)
        assert await one.call("add", a=1, b=1) == "2"


@pytest.mark.exhaustive
async def test_a_call_that_times_out_is_cancelled_and_the_server_stays_usable(tmp_path):
    """A call that times out sends `notifications/cancelled`, and the server stays usable."""
    marker = tmp_path / "stopped"
    async with connected(tmp_path, good(tmp_path, env=(("STOPPED", str(marker)),))) as one:
        assert await one.call("slow", within=0.2, seconds=60) == "nothing"
        await until(marker.exists)
        assert await one.call("add", a=1, b=2) == "3"

"""MCP servers that are processes: well-behaved ones, and each way to misbehave, for real."""

import asyncio
import contextlib
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from run_specialist.specialist.mcp_servers.server_config import ServerConfig
from run_specialist.tools.mcp.clients import McpClients
from run_specialist.tools.mcp.result import LONGEST
from tests.wire.mcp_servers.had import had, raw, running, script, until

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="processes are looked up in /proc"),
]


def good(tmp_path: Path, **more: object) -> ServerConfig:
    """Return the server that behaves; its command line ends with a mark."""
    return ServerConfig("good", script("good", str(tmp_path)), **more)


async def test_a_server_is_started_once_and_nothing_is_left_of_it(tmp_path):
    """Its tools come as `mcp__server__tool`, with its own words and schemas; two runs share one process."""
    before = asyncio.all_tasks()
    async with had(tmp_path, good(tmp_path)) as one:
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


async def test_children_that_begin_at_once_share_one_process(tmp_path):
    """None of them starts it a second time."""
    clients = McpClients()
    wanted = {"good": good(tmp_path)}
    found = await asyncio.gather(*(clients.tools(wanted, root=tmp_path) for _ in range(5)))
    assert [len(tools) for tools, _ in found] == [10] * 5
    assert len(running(tmp_path)) == 1
    await clients.aclose()
    assert running(tmp_path) == []


@pytest.mark.exhaustive
async def test_calls_go_side_by_side(tmp_path):
    """A quick one does not wait for a slow one."""
    async with had(tmp_path, good(tmp_path)) as one:
        slow = asyncio.create_task(one.call("slow", seconds=60))
        assert await one.call("add", a=1, b=2) == "3"
        assert not slow.done()
        slow.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await slow


@pytest.mark.exhaustive
async def test_strange_names_of_tools_are_called_by_what_the_server_calls_them(tmp_path):
    """The name that a model sees is cut and cleaned, what is sent is not."""
    async with had(tmp_path, good(tmp_path)) as one:
        (name,) = [name for name in one.tools if name.startswith("odd")]
        assert len(f"mcp__good__{name}") <= 64
        assert await one.call(name) == "odd"


async def test_the_process_has_a_small_environment_of_its_own(tmp_path, monkeypatch):
    """No key of ours, what the file gives with its variables filled in, the project as its folder, its own group."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "geheim")
    monkeypatch.setenv("OWL", "hoot")
    server = good(tmp_path, env=(("SAYS", "${OWL} ${TOAD:-croak}"),))
    async with had(tmp_path, server) as one:
        told = (await one.call("environment")).splitlines()
        (process,) = running(tmp_path)
        assert os.getpgid(process) == process != os.getpgid(0)
    assert f"cwd={tmp_path}" in told
    assert "SAYS=hoot croak" in told
    assert "geheim" not in str(told)
    names = {line.partition("=")[0] for line in told}
    assert names <= {"cwd", "pid", "SAYS", "HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "LC_CTYPE"}


@pytest.mark.exhaustive
async def test_a_folder_of_its_own_is_seen_from_the_root(tmp_path):
    """`cwd` in the file; one that is not there is told."""
    (tmp_path / "inner").mkdir()
    async with had(tmp_path, good(tmp_path, cwd="inner")) as one:
        assert f"cwd={tmp_path / 'inner'}" in await one.call("environment")
    async with had(tmp_path, good(tmp_path, cwd="outer")) as one:
        assert f"there is no folder {tmp_path / 'outer'}" in one.warnings[0]


@pytest.mark.exhaustive
async def test_what_is_no_text_is_told_in_a_line(tmp_path):
    """Images, sounds and links by name; a resource that is text is read."""
    async with had(tmp_path, good(tmp_path)) as one:
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
async def test_errors_of_the_server_are_errors_of_the_call(tmp_path):
    """The tool's own, and arguments that the server does not take; the server goes on."""
    async with had(tmp_path, good(tmp_path)) as one:
        assert (await one.call("fail")).startswith("ToolError: Error executing tool fail")
        assert "valid integer" in await one.call("add", a="x", b=1)
        assert "half a character" in await one.call("add", a="\ud800", b=1)
        assert "a number that is none" in await one.call("add", a=float("nan"), b=1)
        assert await one.call("add", a=1, b=1) == "2"


@pytest.mark.exhaustive
async def test_a_call_that_takes_too_long_is_told_to_stop_and_the_server_stays_usable(tmp_path):
    """It gets `notifications/cancelled`."""
    marker = tmp_path / "stopped"
    async with had(tmp_path, good(tmp_path, env=(("STOPPED", str(marker)),))) as one:
        assert await one.call("slow", within=0.2, seconds=60) == "nothing"
        await until(marker.exists)
        assert await one.call("add", a=1, b=2) == "3"


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
    """With its last words, printable; the others have their tools, and no process is left."""
    marker = tmp_path / "marker"
    async with had(tmp_path, raw(how, marker, timeout=2 if how == "silent" else 30), good(tmp_path)) as one:
        assert re.fullmatch(f"mcp_servers: raw: {why}; the run goes on without its tools", one.warnings[0])
        assert "add" in one.tools
    assert running(marker) == []
    if how == "children":
        assert int(marker.read_text()) not in running("time.sleep(600)")


async def test_a_server_that_is_gone_before_it_is_listened_to_is_not_waited_for(tmp_path, monkeypatch):
    """Though a child of its own keeps the pipes open: on a busy machine it may end while they are being connected."""
    loop = asyncio.get_running_loop()
    whole = loop.subprocess_exec

    async def late(*given, **named):
        transport, protocol = await whole(*given, **named)
        await until(lambda: transport.get_returncode() is not None and protocol._process_exited)
        return transport, protocol

    monkeypatch.setattr(loop, "subprocess_exec", late)
    async with had(tmp_path, raw("children", tmp_path / "marker", timeout=30)) as one:
        assert "it exited with code 1, saying: the child goes on; the run goes on" in one.warnings[0]


async def test_what_is_odd_beside_the_tools_costs_none_of_them(tmp_path):
    """The library passes over what a later protocol would say of how long the list holds; so it is no tool's fault."""
    async with had(tmp_path, raw("hasty", tmp_path / "marker")) as one:
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
async def test_a_tool_that_breaks_the_protocol_costs_itself(tmp_path, how, what, why, it):
    """One warning names what is left out; the others of its server can be called."""
    async with had(tmp_path, raw(how, tmp_path / "marker")) as one:
        told = f"mcp_servers: raw: its {what} not what the protocol wants: {why}; the run goes on without {it}"
        assert one.warnings == (told,)
        assert list(one.tools) == ([] if how == "untyped" else ["look"])
        if one.tools:
            assert await one.call("look") == "seen"


async def test_a_program_that_is_not_there_or_no_program_is_a_warning(tmp_path):
    """By name, by path, without the right to be run, and one that the system does not know how to run."""
    (tmp_path / "plain.sh").write_text("#!/bin/sh\n")
    (tmp_path / "data").write_bytes(b"\x00\x01")
    (tmp_path / "data").chmod(0o755)
    names = ["no-such-program-here", "./nowhere.sh", "./plain.sh", "./data", "a\0b"]
    servers = [ServerConfig(f"s{number}", (name,)) for number, name in enumerate(names)]
    async with had(tmp_path, *servers) as one:
        assert [warning.split(": ", 2)[2].partition(";")[0] for warning in one.warnings] == [
            "there is no program no-such-program-here",
            "there is no program ./nowhere.sh",
            "./plain.sh cannot be started: Permission denied",
            "./data cannot be started: Exec format error",
            "embedded null byte",
        ]
    assert one.tools == {}


async def test_a_variable_that_is_not_set_is_a_warning(tmp_path):
    """It names the variable, and nothing is started."""
    async with had(tmp_path, good(tmp_path, env=(("KEY", "${NO_SUCH_VARIABLE}"),))) as one:
        assert "the environment variable NO_SUCH_VARIABLE is not set" in one.warnings[0]


async def test_without_the_extra_a_warning_tells_how_to_install_it(tmp_path, monkeypatch):
    """`pip install 'run-specialist[mcp]'`."""
    monkeypatch.setitem(sys.modules, "mcp.client.stdio", None)
    async with had(tmp_path, good(tmp_path)) as one:
        assert "pip install 'run-specialist[mcp]'" in one.warnings[0]
    assert running(tmp_path) == []


@pytest.mark.parametrize("how", ["old", "new"])
async def test_servers_of_any_age_are_spoken_to(tmp_path, how):
    """One that ends when it hears anything before `initialize`, and one that no longer takes it."""
    async with had(tmp_path, raw(how, tmp_path / "marker")) as one:
        assert one.warnings == ()
        assert await one.call("look") == "seen"
    assert running(tmp_path) == []


@pytest.mark.parametrize(
    ("how", "answer"), [("garbage", "seen"), ("half", "cut \ufffd"), ("stderr", "seen"), ("large", "x" * LONGEST)]
)
async def test_what_a_server_writes_beside_the_protocol_disturbs_nobody(tmp_path, how, answer, capfd):
    """Lines that are no message, 3 MB on stderr, 5 MB in one result: the call is answered, the terminal stays clean."""
    async with had(tmp_path, raw(how, tmp_path / "marker")) as one:
        assert (await one.call("look"))[:LONGEST] == answer
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
async def test_a_call_that_goes_wrong_is_an_error_result(tmp_path, how, why, capfd):
    """Each time anew; a server that had to be stopped is started again for the next call."""
    async with had(tmp_path, raw(how, tmp_path / "marker")) as one:
        assert [await one.call("look") for _ in range(2)] == [f"ToolError: {why}"] * 2
    assert running(tmp_path) == []
    assert capfd.readouterr() == ("", "")


@pytest.mark.exhaustive
async def test_a_server_that_closes_its_input_is_not_waited_for(tmp_path):
    """It goes on running, and nothing can be asked of it."""
    marker = tmp_path / "marker"
    async with had(tmp_path, raw("numb", marker)) as one:
        await until(marker.exists)
        told = "ToolError: the server ended before it answered: it takes no more requests"
        assert await one.call("look") == told
    assert running(marker) == []


async def test_a_server_that_never_answers_costs_the_time_of_the_call(tmp_path):
    """It is left to itself, and asked again."""
    async with had(tmp_path, raw("mute", tmp_path / "marker")) as one:
        assert [await one.call("look", within=0.2) for _ in range(2)] == ["nothing"] * 2


async def test_a_server_that_dies_in_mid_call_is_started_anew_by_the_next_one(tmp_path):
    """The call itself is not repeated: it may have had its effect."""
    async with had(tmp_path, raw("dies", tmp_path / "marker")) as one:
        told = "ToolError: the server ended before it answered: it exited with code 1, saying: out of cheese"
        assert await one.call("look") == told
        assert await one.call("look") == "seen"


@pytest.mark.exhaustive
async def test_a_server_that_was_killed_meanwhile_is_started_anew(tmp_path):
    """Between two calls, without an error."""
    async with had(tmp_path, good(tmp_path)) as one:
        assert await one.call("add", a=1, b=2) == "3"
        (process,) = running(tmp_path)
        os.kill(process, signal.SIGKILL)
        connection = next(iter(one.clients._connections.values()))
        await asyncio.wait_for(connection._line._over.wait(), 30)
        assert await one.call("add", a=1, b=3) == "4"
        assert process not in running(tmp_path)


async def test_a_server_that_cannot_be_started_again_is_not_tried_at_each_call(tmp_path):
    """Each call is told why; the next run tries again."""
    program = tmp_path / "program.sh"
    program.write_text(f"#!/bin/sh\nexec {' '.join(script('raw', 'wide', str(tmp_path)))}\n")
    program.chmod(0o755)
    server = ServerConfig("raw", (str(program),))
    async with had(tmp_path, server) as one:
        program.rename(tmp_path / "gone.sh")
        assert "was stopped" in await one.call("look")
        gone = f"ToolError: the server is gone, and could not be started again: there is no program {program}"
        assert await one.call("look") == gone
        (tmp_path / "gone.sh").rename(program)
        assert await one.call("look") == gone
        await one.clients.tools({"raw": server}, root=tmp_path)
        assert "was stopped" in await one.call("look")


@pytest.mark.exhaustive
@pytest.mark.parametrize(("how", "taken"), [("many", 1000), ("endless", 100), ("none", 0)])
async def test_lists_of_tools_are_bounded(tmp_path, how, taken):
    """10,000 tools, pages without an end, and no tool at all."""
    async with had(tmp_path, raw(how, tmp_path / "marker")) as one:
        assert len(one.tools) == taken
        told = f"mcp_servers: raw: it lists more tools than are taken; there are the first {taken:,}"
        assert one.warnings == ((told,) if taken else ())


async def test_odd_schemas_and_names_are_made_fit_and_collisions_told(tmp_path):
    """The first of two definitions of a name, one name each for `same.name` and `same_name`."""
    async with had(tmp_path, raw("odd", tmp_path / "marker")) as one:
        assert list(one.tools)[:5] == ["any", "bare", "broken", "key", "same_name"]
        (warning,) = one.warnings
        assert re.search(r"raw: same_name is called mcp__raw__same_name_\w{8}, since another one has its name", warning)
        assert all(tool.input_schema["type"] == "object" for tool in one.tools.values())


async def test_what_a_server_asks_of_us_is_not_supported(tmp_path):
    """Roots, sampling and elicitation are refused, a ping is answered; notifications are passed over."""
    async with had(tmp_path, raw("asks", tmp_path / "marker")) as one:
        assert (await one.call("look")).split("; ") == [
            "roots/list: List roots not supported",
            "sampling/createMessage: Sampling not supported",
            "elicitation/create: Elicitation not supported",
            "ping: granted",
        ]


@pytest.mark.exhaustive
async def test_a_server_that_takes_no_hint_is_killed(tmp_path):
    """It ignores the end of its input and SIGTERM."""
    async with had(tmp_path, raw("deaf", tmp_path / "marker")) as one:
        assert await one.call("look") == "seen"
        assert len(running(tmp_path)) == 1
    assert running(tmp_path) == []


@pytest.mark.exhaustive
async def test_who_is_cancelled_while_a_server_starts_leaves_nothing(tmp_path):
    """The wait ends at once, and closing ends the server."""
    clients = McpClients()
    waiting = asyncio.create_task(clients.tools({"raw": raw("silent", tmp_path / "marker")}, root=tmp_path))
    await until(lambda: running(tmp_path))
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await clients.aclose()
    assert running(tmp_path) == []


@pytest.mark.exhaustive
async def test_who_is_cancelled_takes_the_server_from_nobody_else(tmp_path):
    """Two wait for the same start, one of them gives up."""
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
from run_specialist.specialist.mcp_servers.server_config import ServerConfig
from run_specialist.tools.mcp.clients import McpClients

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
    """It returns, is interrupted, exits, or drops its event loop; the server that it leaves open takes no hint."""
    command = [sys.executable, "-c", PROGRAM, how, *script("raw", "deaf", str(tmp_path))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == {"forgets": 0, "interrupted": -signal.SIGINT, "exits": 3, "abandons": 0}[how], done.stderr
    assert running(tmp_path) == []
    assert "Unknown child" not in done.stderr

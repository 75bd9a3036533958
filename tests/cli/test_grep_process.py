"""The process that runs a pattern search ends with the run, however the run ends."""

import asyncio
import json
import signal
import sys

import pytest

from run_specialist import Runner
from run_specialist.tools import files as by_pattern
from tests.endless_search import PATIENCE, PATTERN, burning
from tests.wire.simulator.replies import answers, calls

LASTING = """
import sys
from run_specialist.tools import files
files.TIMEOUT = 3600.0
"""
"""Code that raises the search's time limit, so that it does not end the search during a test."""
RUN = f"{LASTING}sys.argv[0] = 'run-specialist'; from run_specialist.cli.ask import main; main()"
SERVE = f"{LASTING}sys.argv[0] = 'specialists'; from run_specialist.cli.manage import main; main()"
SEARCH = calls("grep", {"pattern": PATTERN, "path": "notes"})
CALL = [
    {
        "id": 1,
        "method": "initialize",
        "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
    },
    {"method": "notifications/initialized"},
    {"id": 2, "method": "tools/call", "params": {"name": "finder", "arguments": {"query": "What?"}}},
]
"""The messages with which a client asks the specialist."""
only_linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux reports the end of a parent")


@pytest.fixture
def fire(notes, tmp_path, monkeypatch):
    """A note on which the search never finishes; no process still searches it after the test."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    with burning(notes / "notes") as one:
        yield one


def interrupt_twice(process):
    """Send SIGINT twice, the second time while the program exits."""
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGINT)


def terminate_and_interrupt(process):
    """Send SIGTERM, which lets the call continue, and then SIGINT."""
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGINT)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("line", "flags", "reason"),
    [
        ("tool_timeout: 2", [], "no result within 2 seconds"),
        ("time_limit: 600", ["--time-limit", "5"], "when the time of the run was up"),
    ],
    ids=["tool_timeout", "--time-limit"],
)
def test_a_time_limit_ends_the_search(api, write, program, fire, line, flags, reason):
    """A time limit ends the call long before the search would finish; the run answers and no search process is left."""
    write("finder", "model: haiku", line)
    simulator = api([SEARCH, answers("yes")])
    process = program("finder", "What?", *flags, code=RUN)
    out, _ = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out) == (0, "yes\n")
    assert reason in json.dumps(simulator.requests[-1].body)
    fire.wait_for_end()


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize(
    "end",
    [interrupt_twice, terminate_and_interrupt],
    ids=["SIGINT twice", "SIGTERM and SIGINT"],
)
def test_a_signal_ends_the_search(api, write, program, fire, end):
    """A signal kills the search together with the call that waits for it."""
    write("finder", "model: haiku")
    api([SEARCH])
    process = program("finder", "What?", code=RUN)
    fire.wait_for_search()
    end(process)
    process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    fire.wait_for_end()


@pytest.mark.exhaustive
@only_linux
@pytest.mark.parametrize("arguments", [("finder", "What?"), ("mcp",)], ids=["run-specialist", "specialists mcp"])
def test_a_killed_program_ends_its_search(api, write, program, fire, arguments):
    """After SIGKILL, when the program cannot clean up, the kernel kills the search."""
    write("finder", "model: haiku")
    api([SEARCH])
    process = program(*arguments, code=SERVE if arguments == ("mcp",) else RUN, stdin=-1)
    if arguments == ("mcp",):
        send(process)
    fire.wait_for_search()
    process.kill()
    process.wait(PATIENCE)
    fire.wait_for_end()


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "end",
    [
        lambda process: process.send_signal(signal.SIGTERM),
        lambda process: process.stdin.close(),
    ],
    ids=["SIGTERM", "end of input"],
)
def test_stopping_an_mcp_server_ends_its_searches(api, write, program, fire, end):
    """Stopping the server stops its runs and the processes they started."""
    write("finder", "model: haiku")
    api([SEARCH])
    process = program("mcp", code=SERVE, stdin=-1)
    send(process)
    fire.wait_for_search()
    end(process)
    process.stdout.read()
    process.wait(PATIENCE)
    fire.wait_for_end()


@pytest.mark.exhaustive(one_in=2)
@pytest.mark.parametrize("how", ["abort", "cancel"])
def test_a_run_cancelled_by_its_program_ends_its_search(api, write, fire, monkeypatch, how):
    """The end of the call kills the search, not the end of the program, which keeps running."""
    monkeypatch.setattr(by_pattern, "TIMEOUT", 3600.0)
    write("finder", "model: haiku")
    api([SEARCH])

    async def ask():
        async with Runner() as runner:
            run = await runner.prepare("finder", "What?")
            task = asyncio.create_task(run.outcome())
            await asyncio.to_thread(fire.wait_for_search)
            if how == "cancel":
                task.cancel()
            else:
                run.abort()
            await asyncio.wait([task])
            await asyncio.to_thread(fire.wait_for_end)
            return run.ended.status

    assert asyncio.run(ask()) == "aborted"


def send(process):
    """Send the messages that make a server ask the specialist."""
    for message in CALL:
        process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    process.stdin.flush()

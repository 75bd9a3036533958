"""The process that runs a pattern search ends with the run, however the run ends."""

import asyncio
import json
import signal
import subprocess
import sys

import pytest

from run_specialist import Runner
from run_specialist.tools import files as by_pattern
from tests.endless_search import PATIENCE, PATTERN, burning
from tests.wire.serving import Program
from tests.wire.simulator.replies import answers, calls
from tests.wire.stdio_client import HELLO, READY, asks, send

LASTING = """
import sys
from run_specialist.tools import files
files.TIMEOUT = 3600.0
"""
"""Code that raises the search's time limit, so that it does not end the search during a test."""
RUN = f"{LASTING}sys.argv[0] = 'run-specialist'; from run_specialist.cli.ask import main; main()"
SERVE = f"{LASTING}sys.argv[0] = 'specialists'; from run_specialist.cli.manage import main; main()"
SEARCH = calls("grep", {"pattern": PATTERN, "path": "notes"})
only_linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux reports the end of a parent")


@pytest.fixture
def fire(notes, tmp_path, monkeypatch):
    """A note on which the search never finishes; no process still searches it after the test."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    with burning(notes / "notes") as one:
        yield one


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("line", "flags", "reason"),
    [
        ("tool_timeout: 1", [], "no result within 1 second"),
        ("time_limit: 600", ["--time-limit", "3"], "when the time of the run was up"),
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
    "signals",
    [
        (signal.SIGINT, signal.SIGTERM),
        (signal.SIGTERM, signal.SIGINT),
        pytest.param((signal.SIGKILL,), marks=only_linux),
    ],
    ids=str,
)
def test_a_signal_ends_the_search(api, write, program, fire, signals):
    """Signals kill the search together with the call that waits for it; after SIGKILL the kernel does.

    Two of one kind would count as one where the first has not been noticed yet.
    """
    write("finder", "model: haiku")
    api([SEARCH])
    process = program("finder", "What?", code=RUN)
    fire.wait_for_search()
    for number in signals:
        process.send_signal(number)
    process.communicate(timeout=PATIENCE)
    assert process.returncode == (130 if signal.SIGINT in signals else -signal.SIGKILL)
    fire.wait_for_end()


@pytest.mark.exhaustive
@pytest.mark.parametrize("how", ["terminate", "end of input", pytest.param("kill", marks=only_linux)])
def test_stopping_an_mcp_server_ends_its_searches(api, write, program, fire, how):
    """Stopping the server, or killing it, stops its runs and the processes they started."""
    write("finder", "model: haiku")
    api([SEARCH])
    process = program("mcp", code=SERVE, stdin=subprocess.PIPE)
    send(Program(process), HELLO, READY, asks(2, "finder", query="What?"))
    fire.wait_for_search()
    if how == "end of input":
        process.stdin.close()
    else:
        getattr(process, how)()
    process.stdout.read()
    process.wait(PATIENCE)
    fire.wait_for_end()


@pytest.mark.exhaustive
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

"""A search runs under limits that the kernel enforces, and ends with the call that waits for it."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading

import pytest

from run_specialist.budget import Budget
from run_specialist.tools import files as by_pattern
from run_specialist.tools import scripts
from run_specialist.tools.base import Context
from run_specialist.tools.files import file_tools
from run_specialist.tools.threads import in_thread, run
from tests.endless_search import PATIENCE, PATTERN, burning

pytestmark = pytest.mark.skipif(os.name != "posix", reason="Windows has no such limits")

FOR_EVER = "while True: pass"
REPORT = """
import json, resource, signal
names = ("RLIMIT_CPU", "RLIMIT_DATA", "RLIMIT_CORE")
print(json.dumps({name: resource.getrlimit(getattr(resource, name)) for name in names}
    | {"timer": signal.getitimer(signal.ITIMER_REAL)[0]}))
"""
DEAF = """
import os, signal, sys
for number in (signal.SIGALRM, signal.SIGXCPU):
    signal.signal(number, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM, signal.SIGXCPU, signal.SIGTERM})
os.execv(sys.argv[1], sys.argv[1:])
"""
"""Code that ignores and blocks the signals of the limits, and then executes another program."""


@pytest.fixture
def fire(root):
    """Create a file that no search can finish; after the test, no process searches it."""
    with burning(root) as one:
        yield one


def start(*command, seconds=60.0, parent=None, before=()):
    """Run a command under limits."""
    limits = (sys.executable, scripts.__file__, "limit", str(seconds), str(os.getpid() if parent is None else parent))
    return subprocess.run([*before, *limits, *command], capture_output=True, check=False, timeout=PATIENCE)


def python(code):
    """Return a command that runs code."""
    return (sys.executable, "-c", code)


def test_a_command_runs_under_limits():
    """Limits on time, CPU time, memory and core dumps apply to the command that replaces the script."""
    limits = json.loads(start(*python(REPORT), seconds=50.5).stdout)
    assert 0 < limits.pop("timer") <= 50.5
    assert limits == {"RLIMIT_CPU": [51, 51], "RLIMIT_DATA": [scripts.MEMORY] * 2, "RLIMIT_CORE": [0, 0]}


@pytest.mark.exhaustive
def test_the_kernel_kills_a_search_at_its_time_limit():
    """The kernel kills a search at its time limit, even if the caller ignored and blocked the signal."""
    assert start(*python(FOR_EVER), seconds=0.2, before=python(DEAF)).returncode == -signal.SIGALRM


def test_a_search_does_not_start_after_its_caller_ended():
    """A search does not start if its caller has already ended."""
    ended = subprocess.Popen(python(""))
    ended.wait(PATIENCE)
    result = start(*python("print('began')"), parent=ended.pid)
    assert (result.returncode, result.stdout) == (-signal.SIGKILL, b"")


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not limit what is mapped")
def test_memory_is_limited():
    """A search that exceeds its memory limit gets a MemoryError, and the machine stays usable."""
    result = start(*python(f"bytearray({scripts.MEMORY})"))
    assert (result.returncode, b"MemoryError" in result.stderr) == (1, True)


def test_a_call_cancelled_before_the_start_leaves_no_process(root):
    """If the call was cancelled before the process started, the process is killed immediately."""
    may_begin, results = threading.Event(), []

    def search():
        may_begin.wait(PATIENCE)
        results.append(run(python(FOR_EVER), root, PATIENCE))
        may_begin.set()

    async def call():
        task = asyncio.create_task(in_thread(search))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        may_begin.set()

    before = set(threading.enumerate())
    asyncio.run(call())
    for thread in set(threading.enumerate()) - before:
        thread.join(PATIENCE)
    assert results == [(b"", -signal.SIGKILL)]


@pytest.mark.exhaustive
@pytest.mark.parametrize("how", ["timeout", "cancel"])
def test_a_call_that_ends_early_ends_its_search(root, fire, monkeypatch, how):
    """A call that times out or is cancelled ends its search."""
    monkeypatch.setattr(by_pattern, "TIMEOUT", 3600.0)
    grep = {tool.name: tool for tool in file_tools(root)}["grep"]

    async def call():
        seconds = 0.5 if how == "timeout" else 3600
        context = Context("run-1", "call-1", Budget(()), seconds)
        task = asyncio.create_task(grep.call_within(seconds, {"pattern": PATTERN}, context))
        if how == "cancel":
            await asyncio.to_thread(fire.wait_for_search)
            task.cancel()
        await asyncio.wait([task])
        await asyncio.to_thread(fire.wait_for_end)
        return task.cancelled() or task.result()

    assert asyncio.run(call()) is (True if how == "cancel" else None)


def test_a_failed_search_has_its_own_exit_code():
    """A failed search in Python has its own exit code."""
    command = [sys.executable, "-I", "-S", scripts.__file__, "scan", "(", "0", "1"]
    assert subprocess.run(command, check=False, timeout=PATIENCE).returncode == scripts.SEARCH_FAILED

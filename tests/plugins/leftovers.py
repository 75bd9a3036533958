"""Kill the processes left behind by a failed test and by a worker that died.

When a test times out, its processes are killed and pytest-timeout raises an exception in it, so fixtures clean up. A
test that cannot be ended that way ends its worker (`faulthandler_timeout`); then the process that started the worker
kills all processes that carry the worker's name. Processes of shared fixtures are kept.
"""

import os
import signal
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.plugins.environment import runs_tests
from tests.program_forks import OWNER, owner

TEST = "PYTEST_CURRENT_TEST"
"""Variable in which pytest names the test."""
PATIENCE = 10
"""Timeout for killed processes to exit [s]."""
_before = pytest.StashKey[set[int]]()
_left = pytest.StashKey[set[psutil.Process]]()


def pytest_configure(config: pytest.Config) -> None:
    """Put the worker's name into the environment of all processes that it starts."""
    if runs_tests(config):
        os.environ[OWNER] = owner(os.getppid(), os.getpid())


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item):
    """After a failed test, kill the processes that it started and did not end."""
    item.stash[_before], item.stash[_left] = _children(), set()
    done = yield
    _kill(item.stash[_left])
    return done


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    """Exclude the processes that fixtures have started."""
    item.stash[_before] = _children()


@pytest.hookimpl(wrapper=True, optionalhook=True)
def pytest_timeout_set_timer(item: pytest.Item):
    """When a test times out, kill the processes that it started before the exception is raised in it."""
    done = yield
    ring = signal.getsignal(signal.SIGALRM)

    def kill_and_ring(*given: object) -> None:
        _kill(_started_by_test(item))
        ring(*given)

    if callable(ring):
        signal.signal(signal.SIGALRM, kill_and_ring)
    return done


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item):
    """Find the processes of a failed test while their parents still exist."""
    report = yield
    if report.failed:
        item.stash[_left] |= _started_by_test(item)
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Kill all remaining processes."""
    if runs_tests(session.config):
        _kill({*psutil.Process().children(recursive=True), *_named({OWNER: os.environ[OWNER]})})


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: object) -> None:
    """Kill the processes of a pytest-xdist worker that died."""
    _kill(_named({OWNER: owner(os.getpid(), node.gateway._io.popen.pid)}))


def _children() -> set[int]:
    """Return the ids of the direct child processes."""
    tasks = Path("/proc/self/task")
    if not tasks.is_dir():
        return {one.pid for one in psutil.Process().children()}
    # This runs for every test, and reading /proc is a hundred times faster than psutil.
    found: set[int] = set()
    for task in tasks.iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):  # the thread has ended meanwhile
            found.update(map(int, (task / "children").read_text().split()))
    return found


def _started_by_test(item: pytest.Item) -> set[psutil.Process]:
    """Return the processes started since the fixtures were ready, or since the test began if they were not."""
    new = [one for one in psutil.Process().children() if one.pid not in item.stash[_before]]
    named = _named({name: os.environ.get(name) for name in (OWNER, TEST)})
    return {*new, *named, *(one for parent in new for one in _below(parent))}


def _named(variables: dict[str, str | None]) -> set[psutil.Process]:
    """Return the processes with these environment variables, and their descendants."""
    found = set()
    for process in psutil.process_iter():
        try:
            environment = process.environ()
        except psutil.Error:
            continue
        if process.pid != os.getpid() and all(environment.get(name) == value for name, value in variables.items()):
            found |= {process, *_below(process)}
    return found


def _below(process: psutil.Process) -> list[psutil.Process]:
    try:
        return process.children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def _kill(processes: Iterable[psutil.Process]) -> None:
    for process in processes:
        try:
            process.kill()
        except psutil.Error:
            continue
    psutil.wait_procs(processes, PATIENCE)

"""Kill the processes that a failed test leaves behind, and those of a worker that died.

pytest-timeout ends a test that takes too long by an exception, so fixtures clean up after it. What they do not reach is
killed here. A test that cannot be ended that way takes its worker with it (`faulthandler_timeout`); then the process
that started the worker kills what was started by it.
"""

import os
import time
from collections.abc import Iterable

import psutil
import pytest

from tests.plugins.environment import runs_tests

OWNER = "RUN_SPECIALIST_TEST_WORKER"
"""Names the worker in the environment of all that it starts."""
TICK = 0.02
"""How much earlier than it was a process may seem to have started [s]."""
PATIENCE = 10
"""The longest that killed processes are waited for [s]."""
_call_began = pytest.StashKey[float]()
_found = pytest.StashKey[list[psutil.Process]]()


def pytest_configure(config: pytest.Config) -> None:
    """Have everything that this process starts carry its name."""
    if runs_tests(config):
        os.environ[OWNER] = _owner(getattr(config, "workerinput", {}))


def _owner(workerinput: dict[str, str]) -> str:
    return f"{workerinput.get('testrunuid', os.getpid())}-{workerinput.get('workerid', 'main')}"


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item):
    """After a test that failed, kill what it started; processes of fixtures that other tests share stay."""
    item.stash[_call_began] = time.time()
    item.stash[_found] = []
    done = yield
    _kill(item.stash[_found])
    return done


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    """Note when the fixtures were ready."""
    item.stash[_call_began] = time.time()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item):
    """Look for processes as soon as a test has failed, while their parents are still there."""
    report = yield
    if report.failed:
        began = item.stash[_call_began] - TICK
        item.stash[_found] += [one for one in _started_by(os.environ[OWNER]) if one.create_time() >= began]
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Kill whatever is left."""
    if runs_tests(session.config):
        _kill(_started_by(os.environ[OWNER]))


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: object) -> None:
    """Kill what a worker of pytest-xdist that died has started."""
    _kill(_started_by(_owner(node.workerinput)))


def _started_by(owner: str) -> list[psutil.Process]:
    """Return the descendants of this process, where it runs tests, and all that carry the name of a worker."""
    found = set(psutil.Process().children(recursive=True)) if os.environ.get(OWNER) == owner else set()
    for process in psutil.process_iter():
        try:
            if process.pid != os.getpid() and process.environ().get(OWNER) == owner:
                found |= {process, *process.children(recursive=True)}
        except psutil.Error:
            continue
    return list(found)


def _kill(processes: Iterable[psutil.Process]) -> None:
    for process in processes:
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue
    psutil.wait_procs(processes, PATIENCE)

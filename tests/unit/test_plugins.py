"""The guarantees of `tests/plugins`, checked by running pytest on small generated tests."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).parents[2]
PATIENCE = 100
"""Timeout of a pytest run [s]."""
CONFTEST = 'pytest_plugins = ["tests.plugins.environment", "tests.plugins.leftovers", "tests.plugins.tiers"]\n'
SETTINGS = f"""
[pytest]
addopts = --import-mode=importlib --strict-markers
faulthandler_exit_on_timeout = true
faulthandler_timeout = 90
markers = exhaustive
pythonpath = {ROOT}
timeout = 80
"""
START = """
import faulthandler, os, signal, subprocess, threading

def start():
    plain = subprocess.Popen(["sleep", "600"])
    apart = subprocess.Popen(["sleep", "600"], start_new_session=True)
    bare = subprocess.Popen(["sleep", "600"], env={})
    orphan = subprocess.run(["sh", "-c", "sleep 600 >&- & echo $!"], stdout=subprocess.PIPE, check=True).stdout
    with open(os.environ["STARTED"], "a") as file:
        print(plain.pid, apart.pid, bare.pid, int(orphan), file=file)
"""
HANGS = f"""{START}
def test_hangs():
    start()
    signal.raise_signal(signal.SIGALRM)  # as the clock does when the time is up
    threading.Event().wait()

def test_other():
    assert True
"""
STUBBORN = f"""{START}
def test_stubborn():
    start()
    try:
        signal.raise_signal(signal.SIGALRM)
    except BaseException:
        faulthandler.dump_traceback_later(0.1, exit=True)  # as it is when twice the time is up
        threading.Event().wait()

def test_other():
    assert True
"""
DIES = f"""{START}
def test_dies():
    start()
    os._exit(3)

def test_other():
    assert True
"""
SURROUNDINGS = """
import os, signal, subprocess, sys, time

CHILD = '''
import os, signal
ignored = [one.name for one in signal.valid_signals() if signal.getsignal(one) is signal.SIG_IGN]
print(ignored, signal.pthread_sigmask(signal.SIG_BLOCK, []))
'''

def test_it():
    told = subprocess.run([sys.executable, "-c", CHILD], capture_output=True, text=True, check=True).stdout
    assert told == "['SIGPIPE', 'SIGXFSZ'] set()\\n"
    mask = os.umask(0)
    os.umask(mask)
    assert (mask, time.localtime(0).tm_hour) == (0o022, 0)
    assert open(__file__).encoding.lower() == "utf-8"
    given = {"ANTHROPIC_API_KEY", "HTTPS_PROXY", "https_proxy", "NO_COLOR", "XDG_DATA_HOME", "OTEL_SERVICE_NAME"}
    assert not given & set(os.environ)
    assert os.environ["HOME"] != "/nowhere"
"""
TIERS = """
import pytest

@pytest.mark.exhaustive
def test_large():
    pass

@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize("number", range(7))
def test_sampled(number):
    pass

def test_small():
    pass
"""


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Return a function that runs pytest on one file and returns its output."""
    monkeypatch.setenv("STARTED", str(tmp_path / "started"))

    def run_file(text, *flags, before="pass", **environment):
        (tmp_path / "conftest.py").write_text(CONFTEST)
        (tmp_path / "pytest.ini").write_text(SETTINGS)
        (tmp_path / "test_one.py").write_text(text)
        code = f"import os, signal, sys; {before}; import pytest; sys.exit(pytest.main(sys.argv[1:]))"
        command = [sys.executable, "-c", code, "-q", "-p", "no:cacheprovider", *flags, str(tmp_path)]
        given = {**os.environ, **environment}
        done = subprocess.run(
            command, cwd=tmp_path, env=given, capture_output=True, text=True, timeout=PATIENCE, check=False
        )
        return done.stdout + done.stderr

    return run_file


def still_there(tmp_path):
    """Return the ids of the processes started by a test that are still running."""
    started = [int(pid) for pid in (tmp_path / "started").read_text().split()]
    assert len(started) == 4
    here = [one for one in psutil.process_iter() if one.pid in started and one.name() == "sleep"]
    return [one.pid for one in here if one.status() != psutil.STATUS_ZOMBIE]


@pytest.mark.exhaustive
@pytest.mark.parametrize("workers", ["1", "0"])
def test_a_test_that_hangs_is_ended_and_leaves_no_process(run, tmp_path, workers):
    """A test that hangs is ended and its processes are killed; the other test runs.

    Its processes are children, one in its own session, one with a bare environment, and an orphan.
    """
    told = run(HANGS, "-n", workers)
    assert re.search(r"FAILED test_one.py::test_hangs - Failed: Timeout \(>80.0s\)", told), told
    assert "1 failed, 1 passed" in told
    assert still_there(tmp_path) == []


@pytest.mark.exhaustive
def test_a_test_that_swallows_its_timeout_is_ended_with_its_worker(run, tmp_path):
    """A test that swallows the timeout exception is ended with its worker and leaves no process.

    Another worker runs the other test.
    """
    told = run(STUBBORN, "-n", "1")
    assert "crashed while running" in told
    assert "1 failed, 1 passed" in told
    assert still_there(tmp_path) == []


@pytest.mark.exhaustive
def test_processes_of_a_dead_worker_are_killed(run, tmp_path):
    """All processes that carry a dead worker's name are killed; one with a bare environment cannot be recognised."""
    told = run(DIES, "-n", "1")
    assert "1 failed, 1 passed" in told
    left = still_there(tmp_path)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert len(left) == 1


@pytest.mark.exhaustive
@pytest.mark.parametrize("workers", ["1", "0"])
def test_processes_of_every_test_inherit_the_same_state(run, workers):
    """Every test's processes inherit the same state.

    This covers ignored and blocked signals, umask, time zone, locale, keys, proxies, colours and HOME.
    """
    deaf = "[signal.signal(one, signal.SIG_IGN) for one in (1, 2, 3, 15, 17, 20)]"
    before = f"{deaf}; signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1, signal.SIGTERM]); os.umask(0o077)"
    given = {"ANTHROPIC_API_KEY": "k", "HTTPS_PROXY": "http://127.0.0.1:9", "https_proxy": "http://127.0.0.1:9"}
    given |= {"NO_COLOR": "1", "XDG_DATA_HOME": "/nowhere", "OTEL_SERVICE_NAME": "x", "HOME": "/nowhere"}
    locale = {"LC_ALL": "C", "PYTHONUTF8": "0"} if workers == "1" else {}
    told = run(SURROUNDINGS, "-n", workers, before=before, TZ="Pacific/Chatham", **given, **locale)
    assert "1 passed" in told, told


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize(
    ("flags", "passed"), [((), "4 passed"), (("--exhaustive",), "9 passed"), (("-m", "exhaustive"), "8 passed")]
)
def test_exhaustive_runs_the_tests_skipped_otherwise(run, flags, passed):
    """`--exhaustive` runs the tests that are skipped otherwise, and `-m` selects marked tests.

    An ordinary run has the first of each three parameters where the marker says so.
    """
    assert passed in run(TIERS, "-n", "0", *flags)

"""The guarantees of `tests/plugins`, checked by running pytest on small generated tests."""

import os
import re
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


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize(
    ("flags", "passed"), [((), "4 passed"), (("--exhaustive",), "9 passed"), (("-m", "exhaustive"), "8 passed")]
)
def test_exhaustive_runs_the_tests_skipped_otherwise(run, flags, passed):
    """`--exhaustive` runs the tests that are skipped otherwise, and `-m` selects marked tests.

    An ordinary run has the first of each three parameters where the marker says so.
    """
    assert passed in run(TIERS, "-n", "0", *flags)

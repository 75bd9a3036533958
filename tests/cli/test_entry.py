"""The installed programs as they start."""

import signal
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
INTERRUPTED = """
import os, signal, sys
from run_specialist.cli import entry

class Interrupting:
    def find_spec(self, name, path, target=None):
        os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
entry.{program}()
"""
"""A program that is interrupted by the first import after its start."""


@pytest.mark.parametrize("program", ["run_specialist", "specialists"])
def test_ctrl_c_during_the_imports_ends_the_process_without_a_traceback(program):
    """The shell sees a process that was ended by the signal."""
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED.format(program=program)], capture_output=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, b"", b"")


@pytest.mark.parametrize("handler", [signal.default_int_handler, signal.SIG_IGN])
@pytest.mark.parametrize(("script", "command"), [("run-specialist", "ask"), ("specialists", "manage")])
def test_a_command_begins_with_the_handlers_as_they_were(monkeypatch, script, command, handler):
    """Commands handle Ctrl-C themselves, and one that is ignored stays ignored."""
    seen = []
    monkeypatch.setattr(f"run_specialist.cli.{command}.main", lambda: seen.append(signal.getsignal(signal.SIGINT)))
    module, _, name = PROJECT["scripts"][script].partition(":")
    before = signal.signal(signal.SIGINT, handler)
    try:
        getattr(import_module(module), name)()
    finally:
        signal.signal(signal.SIGINT, before)
    assert seen == [handler]

"""The command pauses the garbage collector while it starts."""

import gc
import subprocess
import sys

import pytest

from run_specialist.cli.console import pause_gc, resume_gc


@pytest.fixture(autouse=True)
def unchanged():
    """Restore the garbage collector after the test."""
    yield
    gc.unfreeze()
    gc.enable()


def test_objects_created_at_startup_are_frozen():
    """Objects that exist when the run begins are frozen; later objects are collected."""
    pause_gc()
    assert not gc.isenabled()
    resume_gc()
    assert gc.isenabled()
    assert gc.get_freeze_count() > 1_000


def test_without_a_pause_nothing_is_frozen():
    """A program that calls the command as a function keeps its own objects collectable."""
    resume_gc()
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0


def test_garbage_collection_is_enabled_when_the_run_begins():
    """The garbage collector is enabled again when the run begins."""
    code = (
        "import gc, sys; from run_specialist.cli import ask\n"
        "from run_specialist.loop.run import Run\n"
        "work = Run.outcome\n"
        "async def outcome(self):\n    print('collecting', gc.isenabled(), gc.get_freeze_count() > 1000)\n"
        "    return await work(self)\n"
        "Run.outcome = outcome\n"
        "sys.argv = ['run-specialist', 'thoughts-analyzer', 'Why?', '--model', 'offline', '--store', 'none', '-q']\n"
        "ask.main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert "collecting True True" in done.stdout + done.stderr

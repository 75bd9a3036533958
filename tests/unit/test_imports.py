"""The garbage collector rests while something large is imported, and works again afterwards."""

import gc
import subprocess
import sys
import weakref

import pytest

from run_specialist.imports import begin_program, collector_at_rest, end_of_start


@pytest.fixture(autouse=True)
def as_before():
    """Leave the collector of the tests as it was."""
    yield
    gc.unfreeze()
    gc.enable()


def test_the_collector_works_again_after_an_import_also_after_one_that_fails():
    """It is switched off for no longer than that."""
    seen = []

    def fail() -> None:
        with collector_at_rest():
            seen.append(gc.isenabled())
            raise ImportError

    with pytest.raises(ImportError):
        fail()
    assert (seen, gc.isenabled()) == ([False], True)


def test_whoever_switched_it_off_finds_it_off():
    """A program that does without it is left alone."""
    gc.disable()
    with collector_at_rest():
        pass
    assert not gc.isenabled()


class Knot:
    """Garbage that only the collector finds."""

    def __init__(self) -> None:
        self.itself = self


def test_what_was_imported_is_not_looked_through_with_the_young():
    """It is counted among the oldest at once, and still collected when nobody has it any more."""
    with collector_at_rest():
        made = Knot()
    assert any(one is made for one in gc.get_objects(generation=2))
    assert gc.get_freeze_count() == 0
    gone = weakref.ref(made)
    del made
    gc.collect()
    assert gone() is None


def test_what_a_program_has_frozen_stays_frozen():
    """It has its reasons."""
    gc.freeze()
    before = gc.get_freeze_count()
    with collector_at_rest():
        pass
    assert gc.get_freeze_count() == pytest.approx(before, abs=50)


def test_the_start_of_a_program_is_never_looked_through():
    """What is there when the work begins stays, and what comes after it is collected."""
    begin_program()
    end_of_start()
    assert gc.isenabled()
    assert gc.get_freeze_count() > 1_000


def test_in_somebody_elses_program_nothing_is_frozen():
    """It never said that it begins."""
    end_of_start()
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0


def test_a_command_collects_garbage_while_it_works(tmp_path):
    """Resting ends when the run begins, whichever way the command is called."""
    code = (
        "import gc, sys; from run_specialist.cli import asking, run\n"
        "from run_specialist.runner import Run\n"
        "work = Run.outcome\n"
        "async def outcome(self):\n    print('collecting', gc.isenabled(), gc.get_freeze_count() > 1000)\n"
        "    return await work(self)\n"
        "Run.outcome = outcome\n"
        "sys.argv = ['run-specialist', 'thoughts-analyzer', 'Why?', '--model', 'offline', '--store', 'none', '-q']\n"
        "run.main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert "collecting True True" in done.stdout + done.stderr

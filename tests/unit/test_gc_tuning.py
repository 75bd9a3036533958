"""The garbage collector rests while something large is imported, and has less to do while runs are under way."""

import asyncio
import gc
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from run_specialist.gc_tuning import Easing, at_rest, begin_program, eased, end_of_start
from run_specialist.loop.executed import Executed
from run_specialist.loop.run import Run
from run_specialist.providers.scripted import ScriptedProvider, calls, says
from tests.loop_jobs import job


@pytest.fixture(autouse=True)
def as_before():
    """Leave the collector of the tests as it was."""
    before = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.enable()
    gc.set_threshold(*before)


def test_the_collector_works_again_after_an_import_also_after_one_that_fails():
    """It is switched off for no longer than that."""
    seen = []

    def fail() -> None:
        with at_rest():
            seen.append(gc.isenabled())
            raise ImportError

    with pytest.raises(ImportError):
        fail()
    assert (seen, gc.isenabled()) == ([False], True)


def test_whoever_switched_it_off_finds_it_off():
    """A program that does without it is left alone."""
    gc.disable()
    with at_rest():
        pass
    assert not gc.isenabled()


class Knot:
    """Garbage that only the collector finds."""

    def __init__(self) -> None:
        self.itself = self


def test_what_was_imported_is_not_looked_through_with_the_young():
    """It is counted among the oldest at once, and still collected when nobody has it any more."""
    with at_rest():
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
    with at_rest():
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
        "import gc, sys; from run_specialist.cli import ask, live_run\n"
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


def often() -> int:
    """Return after how many new objects these are looked through."""
    return gc.get_threshold()[0]


OLDER = pytest.mark.skipif(sys.version_info >= (3, 13), reason="newer Pythons do by themselves what is asked for here")


@OLDER
@pytest.mark.anyio
async def test_new_objects_are_looked_through_less_often_while_a_run_is_under_way():
    """Until the last of them has ended, however it does; nothing else is changed."""
    gc.set_threshold(700, 11, 12)
    seen = []

    def look(executed: Executed) -> None:
        seen.append(gc.get_threshold())

    script = [calls(("look", {"query": "owls"})), says("done")]
    works = [job(ScriptedProvider(list(script)), 3, augmenters=[look]) for _ in range(2)]
    outcomes = await asyncio.gather(*(Run(work).outcome() for work in works))
    assert [outcome.answer for outcome in outcomes] == ["done"] * 2
    assert seen == [(2_000, 11, 12)] * 2
    assert gc.get_threshold() == (700, 11, 12)


@OLDER
def test_threads_share_it():
    """It ends with the last one that leaves, whoever was first."""
    gc.set_threshold(700)
    easing, first, second = Easing(), ExitStack(), ExitStack()
    first.enter_context(easing)
    second.enter_context(easing)
    first.close()
    assert often() == 2_000
    second.close()
    assert often() == 700


@pytest.mark.exhaustive
def test_a_run_that_is_thrown_away_may_be_found_while_another_one_begins(monkeypatch):
    """The collector ends it wherever it happens to be at work, and nobody waits for ever."""
    easing, threshold, before = Easing(), gc.get_threshold, often()

    def run(knot: list[object]) -> Iterator[None]:
        with easing:
            yield
            knot.clear()

    knot: list[Iterator[None]] = []
    knot.append(run(knot))
    next(knot[0])
    del knot

    def collecting() -> tuple[int, int, int]:
        gc.collect()
        return threshold()

    def begin_and_end() -> None:
        with easing:
            pass

    monkeypatch.setattr(gc, "get_threshold", collecting)
    another = threading.Thread(target=begin_and_end, daemon=True)
    another.start()
    another.join(60)
    assert not another.is_alive()
    assert often() == before


@pytest.mark.parametrize("chosen", [0, 1, 699, 701, 2_000, 50_000])
def test_a_program_that_has_set_how_often_is_left_alone(chosen):
    """Also if it is what newer Pythons do."""
    gc.set_threshold(chosen)
    with eased:
        assert often() == chosen
    assert often() == chosen


@OLDER
def test_what_a_program_sets_meanwhile_stays():
    """Only what was changed here is changed back."""
    gc.set_threshold(700)
    with Easing():
        gc.set_threshold(5_000)
    assert often() == 5_000

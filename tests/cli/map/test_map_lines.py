"""The progress of `map` without a terminal, and the lines at its end."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from run_specialist.batch.item import Counts
from run_specialist.cli import map_progress
from run_specialist.cli.map_progress import ItemLines, MapProgress
from run_specialist.cli.map_run import same_command, summary_lines
from tests.loop_jobs import Clock
from tests.map_batches import LookedAt, done

CALL = ("finder", "items.txt", "--question", "What about {item}?", "--cost-limit", "5")


def lines_of(counts, *ends, clock=None, seconds=0.0):
    """Return the lines that are printed when items end, so many seconds apart."""
    clock = clock or Clock()
    said = []
    progress = MapProgress(clock)
    lines = ItemLines(LookedAt(counts), progress, said.append)
    for one in ends:
        clock.now += seconds
        progress.end(one)
        lines.end(one)
    return said


def test_a_large_batch_gets_a_line_now_and_then_and_one_for_each_failure():
    """Items with an answer are counted; those without one are named."""
    counts = Counts(answered=600, failed={"quota": 1}, total=1_000)
    ends = [done(number) for number in range(1, 7)]
    failed = done(7, "failed", error="the quota is used up")
    assert lines_of(counts, *ends, failed, seconds=3) == [
        "601 of 1,000 items · 600 answered · 1 failed (1 quota) · $0.10 · 19m 57s left",
        "item 7 docs/7.md · failed: the quota is used up · 5 tool calls · $0.02 · 12 s",
    ]


@pytest.mark.parametrize("total", [None, 10_000])
def test_failures_do_not_fill_a_log(total):
    """After the first ones, failures are only counted, and the last line says so."""
    ends = [done(number, "failed", error="no") for number in range(1, 200)]
    said = lines_of(Counts(total=total), *ends)
    assert len(said) == map_progress.MOST_FAILURES
    assert said[-1].endswith("; further ones are only counted")


@pytest.fixture(autouse=True)
def answers(tmp_path, monkeypatch):
    """Let there be a file of answers."""
    monkeypatch.chdir(tmp_path)
    Path("answers.jsonl").touch()


def ended(batch, progress=None, **options):
    """Return the lines at the end."""
    given = {"file": Path("answers.jsonl"), "writes_rows": True, "is_stored": True} | options
    call = SimpleNamespace(name="finder", words=CALL, batch=batch, **given)
    return [line for line, _ in summary_lines(call, progress or MapProgress(Clock()))]


def progress_of(*ends):
    """Return the progress after items have ended within 70 seconds."""
    clock = Clock()
    progress = MapProgress(clock)
    clock.now += 70
    for one in ends:
        progress.end(one)
    return progress


def test_the_retry_of_a_retry_has_one_flag_and_no_password():
    """The same call is shown with passwords masked, and `--retry` is there once."""
    call = ("finder", "a.txt", "--retry", "aborted", "--store", "postgresql://me:secret@host/db")
    assert same_command(call, "--retry", "failed") == (
        "specialists map finder a.txt --store 'postgresql://me:***@host/db' --retry failed"
    )
    assert same_command(("finder", "--retry=all", "a.txt"), "--retry", "failed") == (
        "specialists map finder a.txt --retry failed"
    )


def test_a_price_that_is_not_known_is_not_a_sum():
    """One unknown price makes the cost unknown; offline nothing is billed, and no cost is shown."""
    batch = LookedAt(Counts(answered=1, total=1))
    assert ended(batch, progress_of(done(1), done(2, cost=None)))[1] == "price unknown · 1m 10s"
    assert ended(batch, progress_of(done(1, cost=0.0)))[1] == "1m 10s"

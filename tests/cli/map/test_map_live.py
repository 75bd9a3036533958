"""The live view of `map`: in any width and height, through pauses and resizes."""

import io

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from run_specialist.batch.item import Counts, ItemStarted
from run_specialist.batch.limits import Pause
from run_specialist.cli import map_progress
from run_specialist.cli.map_progress import MapProgress, MapView
from run_specialist.record.events import Called, Replied, Requested
from run_specialist.record.messages import Usage
from tests.loop_jobs import Clock
from tests.map_batches import LookedAt, done

COUNTS = Counts(answered=30, landed=4, partial=1, failed={"rate_limited": 2}, under_way=2, total=112)


@pytest.fixture
def clock():
    """Return the clock of the progress."""
    return Clock()


def progress_of(clock, items=2):
    """Return the progress of a batch in which some items have ended in a minute, and some are under way."""
    progress = MapProgress(clock)
    for number in range(1, 9):
        clock.now += 7.5
        progress.end(done(number, cost=0.03))
    for number in range(38, 38 + items):
        progress.hear_batch(ItemStarted(number, f"run-{number}"))
    return progress


def drawn(view, width=80, height=24):
    """Return the lines of the view."""
    paper = io.StringIO()
    view.console = Console(file=paper, width=width, height=height, highlight=False)
    view.console.print(view.render())
    return paper.getvalue().splitlines()


def test_the_view_has_counts_cost_time_and_the_newest_items(clock):
    """One line says how many items are done, one the counts, one cost and time, and one what each item does."""
    progress = progress_of(clock)
    progress.hear(39, Requested(1, "auto"))
    progress.hear(38, Called("started", "c", "read", {"path": "docs/a.md"}))
    progress.hear(38, Replied(1, "wants_tools", "", "", Usage(5, 0, 0, 0), 0.01))
    head, counts, figures, *items = drawn(MapView(LookedAt(COUNTS), progress), 100)
    assert "37 of 112 items · 2 under way ━━━" in head
    assert counts == "  30 answered · 4 landed · 1 partial · 2 failed (2 rate limited)"
    assert figures == "  $0.25 of about $2.49 · 9m 22s left · 1m 00s"
    assert items == ["    38  docs/limits-38.md  read docs/a.md", "    39  docs/limits-39.md  thinking"]


def test_a_batch_that_ends_early_has_no_forecast(clock):
    """After Ctrl-C the other items are not asked about: no expected cost or time left."""
    batch = LookedAt(COUNTS, ended_because="stopped")
    assert drawn(MapView(batch, progress_of(clock)))[2] == "  $0.24 · 1m 00s"


def test_a_pause_shows_its_reason_and_the_next_try(clock, monkeypatch):
    """The seconds count down; then the try is said to be on its way."""
    monkeypatch.setattr(map_progress.time, "time", lambda: 1_000.0)
    batch = LookedAt(COUNTS, paused=Pause("quota", "the quota is used up\x1b[2J", 1_025.0))
    view = MapView(batch, progress_of(clock))
    assert drawn(view)[3] == "  paused, next try in 25 s: the quota is used up\ufffd[2J"
    batch.paused = Pause("quota", "the quota is used up", 999.0)
    assert drawn(view)[3] == "  paused, trying again: the quota is used up"


def test_an_unknown_number_of_items_has_no_bar_and_no_end(clock):
    """Items of standard input are counted as they come."""
    lines = drawn(MapView(LookedAt(Counts(answered=8)), progress_of(clock)))
    assert "8 items · 2 under way" in lines[0]
    assert "━" not in lines[0]
    assert "left" not in lines[2]
    assert "about" not in lines[2]


@given(
    st.builds(
        Counts,
        answered=st.integers(0, 10**7),
        failed=st.dictionaries(st.sampled_from(["quota", "rate_limited", "usage"]), st.integers(1, 10**6)),
        not_run=st.integers(0, 10**7),
        total=st.none() | st.integers(0, 10**8),
    ),
    st.text(max_size=60),
    st.integers(0, 12),
    st.integers(12, 220),
    st.integers(3, 60),
)
@example(Counts(total=100_000), "", 0, 12, 3)
def test_the_lines_fit_any_terminal(counts, reason, items, width, height):
    """No line is wider than the terminal, and together they are not higher, whatever the figures and texts."""
    clock = Clock()
    progress = progress_of(clock, items)
    for number in progress.running:
        progress.hear(number, Called("started", "c", "read", {"path": reason}))
    view = MapView(LookedAt(counts, paused=Pause("quota", reason, 0.0)), progress)
    lines = drawn(view, width, height)
    assert max(map(cell_len, lines)) <= width
    assert len(lines) < height


def printed(view, *items, width=80):
    """Return what the view prints above itself when items end."""
    paper = io.StringIO()
    view.console = Console(file=paper, width=width, highlight=False)
    for one in items:
        view.end(one)
    return [line.rstrip() for line in paper.getvalue().splitlines()]


ENDS = (
    done(1, answer="Owls eat mice,\nat night.\x1b[2J"),
    done(2, "failed", answer="[No finished answer]", error="the API answered 400: no such thing", cost=None),
    done(3, is_earlier=True),
)


def test_items_without_an_answer_get_a_line(clock):
    """Answers that go to a file are not shown; a failure is, with its reason; earlier outcomes are only counted."""
    assert printed(MapView(LookedAt(COUNTS), MapProgress(clock)), *ENDS, width=100) == [
        "2 docs/2.md · failed: the API answered 400: no such thing · 5 tool calls · 12 s"
    ]


def test_without_a_file_the_beginning_of_each_answer_is_shown(clock):
    """The answer is one line, cut to the width, and cannot control the terminal."""
    assert printed(MapView(LookedAt(COUNTS), MapProgress(clock), answers=True), *ENDS, width=36) == [
        "1 docs/1.md · answered · 5 tool cal…",
        "    Owls eat mice, at night.\ufffd[2J",
        "2 docs/2.md · failed: the API",
        "answered 400: no such thing · 5 tool",
        "calls · 12 s",
    ]

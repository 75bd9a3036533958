"""The table of runs: which columns a width has space for, and what is below them; pure functions."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from run_specialist.cli.tables import (
    cell_width,
    duration_words,
    fitting,
    lines_below,
    needs_own_line,
    run_cells,
    short_path,
)
from run_specialist.store.stored import ListedRun

WIDTHS = {"RUN": 26, "SPECIALIST": 17, "STATUS": 11, "MODEL": 24, "CALLS": 5, "COST": 7, "DURATION": 8, "STARTED": 12}


def run(**changed):
    """Return a listed run."""
    values = {
        "run_id": "20261122-112233-abcdef0123", "parent_id": None, "specialist": "finder", "model": "m",
        "question": "Why?", "status": "answered", "started_at": 1.0, "ended_at": 2.0, "tool_calls": 1, "cost_usd": 0.5,
    }  # fmt: skip
    return ListedRun(**values | {"project": "/p", "duration_s": 3.0} | changed)


@pytest.mark.parametrize(
    ("width", "columns"),
    [
        (200, list(WIDTHS)),
        (100, ["RUN", "STATUS", "CALLS", "COST", "DURATION", "STARTED"]),
        (79, ["RUN", "STATUS", "CALLS", "COST", "DURATION", "STARTED"]),
        (78, ["RUN", "STATUS", "CALLS", "DURATION", "STARTED"]),
        (60, ["RUN", "STATUS", "STARTED"]),
        (40, ["RUN", "STATUS"]),
        (10, ["RUN"]),
    ],
)
def test_a_narrow_terminal_has_fewer_columns(width, columns):
    """The less important columns are moved below first; the run id stays at any width."""
    assert fitting(WIDTHS, width) == columns


@given(st.text(max_size=60), st.text(max_size=40), st.text(max_size=99), st.integers(38, 200), st.integers(0, 2))
@example("0" * 10, "0" * 13 + "\U0001122c", "", 38, 0)  # a sign without a width of its own
def test_lines_below_fit_and_break_no_date(specialist, model, question, width, depth):
    """No line below a run is wider than the terminal, and short values such as the date stay in one piece."""
    cells = run_cells(run(specialist=specialist, model=model), depth, projects=True)
    columns = fitting({head: WIDTHS.get(head, 24) for head in cells}, width)
    lines = lines_below(cells, columns, question, width, apart=needs_own_line(cells, columns, width))
    assert all(cell_width(line) <= width for line in lines)
    if "STARTED" not in columns:
        assert sum(cells["STARTED"].text in line for line in lines) == 1


def test_the_values_below_are_named():
    """Below a run, numbers have their unit, and an unknown project or cost is named."""
    cells = run_cells(run(cost_usd=None, project=None), 0, projects=True)
    assert lines_below(cells, ["RUN", "STARTED"], "Why?", 99, apart=False) == [
        "  finder, answered, m, 1 call, cost unknown, 3.0 s, project unknown: Why?"
    ]
    assert lines_below(cells, [*cells], "Why?", 99, apart=False) == ["  Why?"]


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "0.0 s"), (9.94, "9.9 s"), (42.4, "42 s"), (59.6, "1m 00s"), (200, "3m 20s"), (3_600, "1h 00m")],
)
def test_durations_are_short(seconds, words):
    """A duration has at most two units."""
    assert duration_words(seconds) == words


def test_the_home_folder_is_shortened(monkeypatch):
    """Only a path inside of the home folder begins with a tilde."""
    monkeypatch.setenv("HOME", "/home/me")
    paths = ("/home/me", "/home/me/p", "/home/mel", "/x")
    assert [short_path(path) for path in paths] == ["~", "~/p", "/home/mel", "/x"]

"""The live view of a streaming answer: its newest lines, wrapped at words, and no lines left behind by a resize."""

import io

import pytest
from rich.console import Console

from run_specialist.cli.live import ANSWER_LINES, LiveView
from run_specialist.cli.reflow import Reflow, wraps_again
from run_specialist.providers.base import Delta
from run_specialist.record.events import Started, Warned
from tests.screen import screen


@pytest.fixture
def paper(monkeypatch):
    """What the live view writes to a terminal that wraps its content anew."""
    monkeypatch.setenv("TERM", "xterm-256color")
    for name in ("NO_COLOR", "COLUMNS", "LINES", "XTERM_VERSION"):
        monkeypatch.delenv(name, raising=False)
    return io.StringIO()


def console(paper, width):
    """Return a console that writes to a terminal of a width."""
    return Console(file=paper, force_terminal=True, width=width, height=40, highlight=False)


def seen(paper, width):
    """Return the screen; a terminal puts a carriage return before each line feed."""
    return screen(paper.getvalue().replace("\n", "\r\n"), width)


def squeezed(written, width):
    """Return what a terminal makes of its lines when it becomes narrower, with the cursor at the end."""
    return [line[at : at + width] for line in written for at in range(0, max(len(line), 1), width)]


@pytest.mark.parametrize("width", [40, 80, 200])
def test_the_newest_lines_of_the_answer_are_shown(paper, width):
    """A long paragraph is wrapped, and its end is on the screen; when the view ends, nothing of it is left."""
    with LiveView(console(paper, width)) as view:
        view(Started("r", "finder", "haiku", "Why?", (), {"tool_calls": 30}))
        view.grow(Delta(" ".join(f"word{number}" for number in range(300))))
        view._live.refresh()
        lines = seen(paper, width)
    newest = lines[-ANSWER_LINES:]
    assert newest[-1].endswith("word299")
    assert all(len(line) <= width for line in lines)
    assert " ".join(newest).split() == [f"word{number}" for number in range(300)][-len(" ".join(newest).split()) :]
    assert seen(paper, width) == ["finder · haiku"]


@pytest.mark.parametrize("printed", [False, True])
def test_a_narrower_terminal_keeps_no_old_lines(paper, printed):
    """After a terminal became narrower and wrapped the view, the next version replaces all lines of the last one."""
    view_console = console(paper, 80)
    with LiveView(view_console) as view:
        view(Started("r", "finder", "haiku", "Why?", (), {"tool_calls": 30}))
        view.grow(Delta("word " * 200))
        view._live.refresh()
        before = squeezed(seen(paper, 80), 30)
        paper.seek(0)
        paper.truncate()
        paper.write("\n".join(before))
        view_console.width = 30
        if printed:
            view(Warned("look out"))
        else:
            view._live.refresh()
        lines = seen(paper, 30)
    assert lines[0] == "finder · haiku"
    assert sum("tool calls" in line or "━━━" in line for line in lines) == 1
    assert ("  look out" in lines) is printed
    assert len(lines) == 1 + printed + 2 + ANSWER_LINES


@pytest.mark.parametrize(
    ("environment", "wraps"),
    [
        ({"TERM": "xterm-256color"}, True),
        ({"TERM": "screen", "TMUX": "/tmp/tmux"}, True),  # noqa: S108 - a value of a variable
        ({"TERM": "screen"}, False),
        ({"TERM": "linux"}, False),
        ({"TERM": "xterm", "XTERM_VERSION": "XTerm(390)"}, False),
    ],
)
def test_terminals_that_cut_lines_are_left_alone(paper, environment, wraps):
    """Where lines are cut instead of wrapped, moving further up would erase the lines above."""
    assert wraps_again(environment) is wraps
    reflow = Reflow(console(paper, 80), wraps=wraps)
    console(paper, 80).print(reflow.of("x" * 70))
    before = paper.tell()
    narrow = console(paper, 30)
    narrow.print(reflow.of("y"))
    assert ("\x1b[1A" in paper.getvalue()[before:]) is wraps

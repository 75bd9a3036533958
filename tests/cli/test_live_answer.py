"""The live view of a streaming answer: its newest lines, wrapped at words."""

import io

import pytest
from rich.console import Console

from run_specialist.cli.live import ANSWER_LINES, LiveView
from run_specialist.providers.base import Delta
from run_specialist.record.events import Started
from tests.screen import screen


@pytest.fixture
def paper(monkeypatch):
    """What the live view writes to a terminal."""
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

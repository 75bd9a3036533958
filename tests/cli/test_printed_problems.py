"""Problems of specialist files, and failed checks of evals, as a terminal shows them."""

from pathlib import Path

import pytest

from run_specialist.cli import console
from run_specialist.specialist.problems import Problem


@pytest.mark.parametrize(("level", "start"), [("error", "\x1b[31m"), ("warning", "\x1b[33m"), ("notice", "/a.md")])
def test_the_color_of_a_problem_shows_its_level(level, start, monkeypatch, capsys):
    """Errors are red and warnings yellow, because only errors prevent a run."""
    for name in ("is_terminal", "has_colours"):
        monkeypatch.setattr(console, name, lambda *_: True)
    console.print_problems([Problem(Path("/a.md"), 1, 1, "tools", "is wrong", level)])
    assert capsys.readouterr().out.startswith(start)

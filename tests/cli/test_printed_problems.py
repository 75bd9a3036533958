"""Problems of specialist files, and failed checks of evals, as a terminal shows them."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from run_specialist.cli import console
from run_specialist.cli.eval_work import failures
from run_specialist.evals.plan import Check
from run_specialist.specialist.problems import Problem


@pytest.mark.parametrize(("level", "start"), [("error", "\x1b[31m"), ("warning", "\x1b[33m"), ("notice", "/a.md")])
def test_the_color_of_a_problem_shows_its_level(level, start, monkeypatch, capsys):
    """Errors are red and warnings yellow, because only errors prevent a run."""
    for name in ("is_terminal", "has_colours"):
        monkeypatch.setattr(console, name, lambda *_: True)
    console.print_problems([Problem(Path("/a.md"), 1, 1, "tools", "is wrong", level)])
    assert capsys.readouterr().out.startswith(start)


@pytest.mark.parametrize(
    ("name", "reason", "shown"),
    [
        ("Regex: by a tenth", "'by a tenth' matches nowhere", "Regex: 'by a tenth' matches nowhere"),
        ("Regex: by a tenth", "", "Regex: by a tenth: failed"),
        ("Gap", "something was found", "Gap: something was found"),
    ],
)
def test_a_failed_check_is_shown_without_repeating_its_argument(name, reason, shown):
    """An argument that tells equal evaluators apart is left out if the reason contains it."""
    run = SimpleNamespace(
        case="a", variant="b", checks=[Check(name, value=False, reason=reason)], error=None, run_id=None
    )
    assert list(failures(SimpleNamespace(variants=[], runs=[run]))) == [f"a · b: {shown}"]

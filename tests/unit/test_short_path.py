"""Lines of the live view show the end of a long path, which tells files apart."""

import pytest

from run_specialist.cli.live import with_short_path
from run_specialist.record.events import BudgetSpent, Called
from tests.cli.test_live_nested import lines_of

PATH = "thoughts/shared/decisions/landing-reserve.md"


@pytest.mark.parametrize(
    ("most", "shown"),
    [
        (100, f"read    {PATH} offset=54"),
        (50, "read    …/decisions/landing-reserve.md offset=54"),
        (40, "read    …/landing-reserve.md offset=54"),
        (5, "read    …/landing-reserve.md offset=54"),
    ],
)
def test_only_as_many_folders_are_left_out_as_do_not_fit(most, shown):
    """The name of the file is kept at any width."""
    assert with_short_path(f"read    {PATH} offset=54", PATH, most) == shown


@pytest.mark.parametrize("path", ["", "a.md", "other/a.md", "/", "a/"])
def test_a_text_without_a_path_that_can_be_shortened_stays_unchanged(path):
    """A call without a path, and one whose path is shown in another form, are left as they are."""
    assert with_short_path("search  why a.md", path, 5) == "search  why a.md"


@pytest.mark.parametrize(("width", "shown"), [(200, PATH), (50, "…/landing-reserve.md"), (30, "…/la")])
def test_a_line_of_the_live_view_shows_the_end_of_a_path(width, shown):
    """A terminal with room shows the whole path, a narrow one its end; at last the name is cut, too."""
    called = Called("finished", "call_1", "read", {"path": PATH, "offset": 54})
    (line,) = lines_of(called, BudgetSpent("tool_calls", 30, 1, 29, "silent"), width=width)
    assert line.startswith(f"   1  read    {shown}")
    assert len(line) <= width

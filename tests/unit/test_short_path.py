"""Lines of the live view show the end of a long path, which tells files apart."""

import pytest

from run_specialist.cli.short_path import with_short_path

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

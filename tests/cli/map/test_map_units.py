"""How `map` writes amounts and the names of items."""

import pytest

from run_specialist.cli.map_progress import label, spread


def test_a_range_of_amounts():
    """A range whose ends look the same is one amount."""
    assert [spread(2.1, 4.4), spread(2.101, 2.1)] == ["$2.10 to $4.40", "$2.10"]


@pytest.mark.parametrize(
    ("given_", "text"),
    [
        ("Why?\n\nNow", "Why? Now"),
        ({"topic": "owls", "path": "a.md"}, "a.md"),
        ({"topic": "owls", "id": 7}, "7"),
        ({"topic": "owls"}, "owls"),
        ({"size": 3.5}, "What?"),
        ({"path": "  ", "topic": "\x1b[2Jowls"}, "\ufffd[2Jowls"),
    ],
)
def test_an_item_is_named_by_the_field_that_tells_it_from_others(given_, text):
    """A path, a name or an id is better than a text; the question is the last resort; nothing controls the terminal."""
    assert label(given_, "What?") == text

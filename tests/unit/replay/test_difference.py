"""The first difference as a block of lines."""

from hypothesis import given, settings
from hypothesis import strategies as st

from run_specialist.replay.differences import MOST_LINES, Difference


def test_c2_the_block_names_place_part_and_hints():
    """The first line names the request, then comes a unified diff, then what to do."""
    found = Difference(2, "system prompt", "a\nb", "a\nc", ("Do this.",))
    assert [*found.shown] == [
        "--- stored",
        "+++ now",
        "@@ -1,2 +1,2 @@",
        " a",
        "-b",
        "+c",
    ]


def test_c2_a_long_difference_ends_with_a_note():
    """A block has a bounded number of lines; JSON has all."""
    found = Difference(1, "p", "\n".join("a" * 500), "\n".join("b" * 500))
    assert len(found.shown) == MOST_LINES + 1
    assert found.shown[-1] == f"[{len(found.diff) - MOST_LINES} more lines; --json has them all]"
    assert len(found.as_json()["diff"]) > 1000


@settings(max_examples=20)
@given(st.text("ab\n\r ", max_size=30), st.text("ab\n\r ", max_size=30))
def test_c2_two_texts_that_differ_have_a_diff(one, other):
    """Also if they differ only in line ends or at their end."""
    assert bool(Difference(1, "p", one, other).diff) == (one != other)

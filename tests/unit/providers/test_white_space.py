"""White space at the end of a streamed reply is counted, however it is split."""

from hypothesis import given
from hypothesis import strategies as st

from run_specialist.providers.transport import COMPLETE, CUT, MOST_WHITE_SPACE, WhiteSpace, stop_reason

BLANK = st.text(" \n\t\r", max_size=30)


def count(pieces: list[str]) -> WhiteSpace:
    """Return the counter after some pieces."""
    white_space = WhiteSpace()
    for piece in pieces:
        white_space.add(piece)
    return white_space


@given(st.lists(st.text() | BLANK), st.integers(0, 3), st.sampled_from([" ", "\n", "\\n", "\\t", "\\r"]))
def test_g7_white_space_counts_from_the_last_word(before, less, blank):
    """It is endless from 2,000 characters on after the last word, and an escape of JSON counts as two."""
    times = MOST_WHITE_SPACE // len(blank)
    assert count([*before, "word", *[blank] * times]).is_endless
    assert not count([*before, "word", *[blank] * (times - 1 - less)]).is_endless
    assert not count([*before, *[blank] * times, "word"]).is_endless


@given(st.integers(0, 30))
def test_g7_white_space_counts_however_it_is_split(size):
    """The pieces may be of any length, and may end within an escape."""
    text = "word" + "\\n \n" * (MOST_WHITE_SPACE // 4)
    step = size + 1
    assert count([text[at : at + step] for at in range(0, len(text), step)]).is_endless
    assert not count([text[at : at + step] for at in range(0, len(text) - 4, step)][:-1]).is_endless


def test_g7_only_json_can_break_off():
    """A reply that breaks off in the middle of JSON is cut; text and complete JSON may be all there is."""
    assert stop_reason(["The answer.", '{"a": 1}']) == COMPLETE
    assert stop_reason([]) == COMPLETE
    assert stop_reason(["The answer.", '{"a": "b']) == CUT
    assert stop_reason([' {"a"']) == CUT

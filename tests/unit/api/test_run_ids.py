"""Ids that are given from outside: which are accepted, and how the others are refused."""

import re
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from run_specialist.api.run_maker import checked_id
from run_specialist.errors import UsageError
from run_specialist.store.location import LAST

ALLOWED = string.ascii_letters + string.digits + "._-"


def is_id(text):
    """Return whether a text is an id, by the letter of the rule."""
    return 1 <= len(text) <= 100 and set(text) <= {*ALLOWED} and text != LAST


@given(st.text(ALLOWED, min_size=1, max_size=100).filter(is_id))
def test_ids_of_allowed_characters_are_accepted(run_id):
    """Any id of 1 to 100 allowed characters is accepted unchanged."""
    assert checked_id(run_id) == run_id


@pytest.mark.parametrize(
    "run_id", ["", LAST, "a b", "a/b", "é", "a\n", "a\0", "x" * 101, "x" * 1_000_000, "%", "١"], ids=ascii
)
def test_these_are_no_ids(run_id):
    """None of these is an id: the alias of the newest run, other characters, too many of them."""
    with pytest.raises(UsageError, match="cannot be the id of a run") as refused:
        checked_id(run_id)
    assert len(str(refused.value)) < 400


@given(st.text(max_size=120).filter(lambda text: not is_id(text)))
def test_any_other_text_is_refused_in_one_line(text):
    """Any other text is refused in one short, printable line."""
    with pytest.raises(UsageError) as refused:
        checked_id(text)
    assert re.fullmatch(r"run_id: .* cannot be the id of a run; use 1 to 100 letters, .*", str(refused.value))
    assert str(refused.value).isprintable()


@pytest.mark.parametrize("run_id", [7, None, b"abc"])
def test_only_strings_are_ids(run_id):
    """A value of another type is refused by its type."""
    with pytest.raises(UsageError, match=f"run_id must be a string, got {type(run_id).__name__}"):
        checked_id(run_id)

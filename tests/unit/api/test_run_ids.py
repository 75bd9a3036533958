"""Ids that are given from outside: which are accepted, and how the others are refused."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from run_specialist.api.run_maker import checked_id
from run_specialist.errors import UsageError
from run_specialist.store.reader import LAST

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

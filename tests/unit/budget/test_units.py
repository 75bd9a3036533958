"""The text form of amounts."""

import pytest

from run_specialist import budget
from run_specialist.budget import Kind


@pytest.mark.parametrize(
    ("kind", "value", "words"),
    [
        (Kind.TOOL_CALLS, 1, "1 tool call"),
        (Kind.TOOL_CALLS, 0, "0 tool calls"),
        (Kind.TURNS, 2, "2 turns"),
        (Kind.TOKENS, 12_000, "12,000 tokens"),
        (Kind.COST, 0.04, "$0.04"),
        (Kind.COST, 1.5, "$1.50"),
        (Kind.COST, 0.00123, "$0.0012"),
        (Kind.COST, 0, "$0.00"),
        (Kind.TIME, 40.9, "40 seconds"),
        (Kind.TIME, 1.0, "1 second"),
        (Kind.TIME, 0.5, "0.5 seconds"),
        (Kind.TIME, 9.94, "9.9 seconds"),
        (Kind.COST, 0.00000123, "$0.0000012"),
        (Kind.COST, 1234.5, "$1,234.50"),
        (Kind.CHARACTERS, 90_000, "90,000 characters"),
    ],
)
def test_x_14_each_kind_has_its_own_unit(kind, value, words):
    """Every kind has its own unit, the same text for models and for people."""
    assert budget.amount(kind, value) == words


def test_after_of_the_plural_is_used_even_for_one():
    """After `of` the plural is used even for one, as in `1 of 1 tool calls`."""
    assert budget.of(Kind.TOOL_CALLS, 1) == "1 tool calls"
    assert budget.of(Kind.COST, 0.1) == "$0.10"

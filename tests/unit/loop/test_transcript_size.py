"""The estimated size of a transcript [tokens]."""

import pytest

from run_specialist.loop.compaction import estimate
from run_specialist.record.messages import Message, ToolResult, Usage
from tests.transcripts import (
    THOUGHT,
    text,
    use,
)


@pytest.mark.parametrize(("length", "more"), [(0, 0), (1, 1), (4, 1), (5, 2), (399, 100), (400, 100), (401, 101)])
def test_s2_6_the_estimate_counts_all_usage_and_a_quarter_of_later_characters(length, more):
    """The estimate counts all kinds of input, the output, and a quarter of later characters, rounded up to a token."""
    later = [Message.results([ToolResult("a", "x" * length)])]
    assert estimate(Usage(1, 20, 300, 4_000), later) == 4_321 + more
    assert estimate(None, later) == more


def test_s2_6_characters_are_summed_before_the_division():
    """Characters are summed before the division: two results of one character are one token."""
    assert estimate(None, [Message.results([ToolResult("a", "x"), ToolResult("b", "x")])]) == 1
    assert estimate(Usage(7), []) == 7


def test_s2_6_only_text_that_a_model_reads_is_counted():
    """Instructions, texts, thinking, names and arguments count; ids and signatures do not."""
    assert estimate(None, [Message.user("x" * 7).with_instruction("y" * 8)]) == 4
    assert estimate(None, [Message("assistant", (text("x" * 40),))]) == 10
    assert estimate(None, [Message("assistant", ({**THOUGHT, "thinking": "x" * 40},))]) == 10
    # Name and {"q":"xx"}: 6 and 10 characters.
    assert estimate(None, [Message("assistant", (use("an-id-that-is-long", q="xx"),))]) == 4
    nested = {"type": "tool_result", "tool_use_id": "a", "content": [text("x" * 40)]}
    assert estimate(None, [Message("user", (nested,))]) == 10

"""The plan of a compaction: which turns are summarised, and in which chunks."""

import pytest

from run_specialist.record.messages import Message, ToolResult
from tests.transcripts import (
    QUESTION,
    history,
    text,
    turn,
    use,
)
from tests.unit.loop.plans import archived_ids, planned


@pytest.mark.parametrize(
    ("target", "count"),
    [(2_000, 1), (1_901, 1), (1_900, 1), (1_899, 2), (1_800, 2), (1_799, 3), (1_700, 3), (1_600, 4), (0, 8)],
)
def test_the_oldest_turns_are_summarized_until_the_rest_fits(target, count):
    """Only as many of the oldest turns as necessary are summarised, at least one; a size equal to the target fits."""
    marker = len("SUMMARIZED executionId:'call_1'")
    found = planned(history(9, size=400 + marker), size=2_000, target=target)
    assert archived_ids(found) == [f"call_{number}" for number in range(1, count + 1)]


def test_the_text_of_the_model_stays_with_its_calls():
    """The model's text is kept with the calls it led to, also across a pause.

    Text without a call is summarised too; the user's text is not.
    """
    said = [Message.user(QUESTION), Message("assistant", (text("Let me see."),))]
    said += turn(("a", "mice"), ("b", "voles"), before=[text("Two places.")])
    said[2] = Message("assistant", (*said[2].content, text("That is all.")))
    said += [Message("assistant", (text("So far so good."),)), Message.user("Go on."), *turn(("c", "x"))]
    first, second, third = planned(said).chunks[0]
    assert first.text.split("\n\n")[:2] == [f"Written on the way:\n{said}" for said in ("Let me see.", "Two places.")]
    assert "mice" in first.text
    assert second.text.endswith("voles\n\nWritten on the way:\nThat is all.")
    assert third.text == "Written on the way:\nSo far so good."


def test_unanswered_calls_and_shared_ids_are_kept_apart():
    """Unanswered calls and calls with the same id each keep their own result or none.

    They come from an interrupted run, or from a server that restarts its ids in each turn.
    """
    both = Message("assistant", (use("a", place=1), use("a", place=2), use("b", place=3)))
    said = [Message.user(QUESTION), both, Message.results([ToolResult("a", "one"), ToolResult("a", "two")])]
    found = planned([*said, *turn(("c", "x"))])
    assert [(pair.call.arguments, pair.result) for pair in found.archived] == [
        ({"place": 1}, "one"),
        ({"place": 2}, "two"),
        ({"place": 3}, ""),
    ]

"""The text of a delegated outcome, and which outcomes are errors."""

import pytest

from run_specialist.record.messages import Usage
from run_specialist.record.outcome import Evidence, LandingReport
from run_specialist.tools.delegate import has_failed, outcome_text
from tests.unit.record.outcomes import outcome

pytestmark = pytest.mark.anyio


def test_the_result_names_the_limit_that_ended_the_work():
    """The result names the limit that ended the work if it is not that of calls.

    Three of nine calls alone would not explain the landing.
    """
    landing = LandingReport("tokens", "force", 1, Usage(), None)
    assert outcome_text(outcome(landing=landing)).startswith(
        "[owls: landed after 3 of 9 tool calls, at its limit of tokens]"
    )
    assert outcome_text(outcome(landing=LandingReport("tool_calls", "force", 1, Usage(), None))).startswith(
        "[owls: landed after 3 of 9 tool calls]"
    )


def test_g_5_quotes_that_were_not_found_are_named_in_a_last_line_and_only_then():
    """The line says how many were found; with verified quotes, or none looked up, the text is as before."""
    quotes = [Evidence("a.md:1", "Yes.", True), *(Evidence("b.md:2", f"No {n}." + "x" * 500, False) for n in range(5))]
    last = outcome_text(outcome(evidence=tuple(quotes))).split("\n\n")[-1]
    assert last.startswith('[1 of 6 quotes found in what it read. Do not rely on: "No 0.xxx')
    assert last.endswith('" and 2 more]')
    assert len(last) < 450
    assert "quotes found" not in outcome_text(outcome(evidence=tuple(quotes[:1])))
    unchecked = outcome_text(outcome(evidence=(Evidence("a.md:1", "Yes.", None),)))
    assert "- a.md:1: Yes.\n\n" in unchecked
    assert "quotes found" not in unchecked


@pytest.mark.parametrize(
    ("status", "answer", "failed"),
    [
        ("answered", "So.", False),
        ("partial", "So.", False),
        ("aborted", "Found.", False),
        ("failed", "Found.", True),
        ("landed", "", True),
    ],
)
def test_a_missing_answer_and_a_failure_are_errors(status, answer, failed):
    """No answer, and a salvage after a failure, are errors for the calling model; a partial answer is not."""
    assert has_failed(outcome(status=status, answer=answer)) is failed

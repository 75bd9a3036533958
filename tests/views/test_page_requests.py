"""The table of requests on the page of a run, the answer, and number formats."""

import html

import pytest

from run_specialist.budget import Rung
from run_specialist.views import page as formats
from run_specialist.views.report import data, report
from tests.views import odd
from tests.views.full import RESUMED, SUMMARY, full_run


def test_cache_misses_are_listed_with_their_reason(full):
    """Cache misses are listed with their reason: a summary, a changed tool choice, or more than five minutes."""
    losses = {loss["turn"]: loss["words"] for loss in full["requests"]["losses"]}
    assert list(losses) == [6, 7, 12]
    assert "a summary replaced the older messages" in losses[6]
    assert "it was sent 2 h 11 min after the previous request" in losses[7]
    assert "its tool choice differs from that of the previous request" in losses[12]
    assert full["requests"]["sentences"] == [
        "10 of 12 requests read from the cache: 102,900 of 157,000 input tokens, 66%.",
        "3 requests missed the cache entry of the previous request.",
    ]


def test_the_table_includes_summary_requests_and_its_total(full):
    """The table includes requests for summaries, and its total equals the outcome's usage."""
    run = full_run()
    rows = full["requests"]["rows"]
    assert [row["name"] for row in rows][4:7] == ["turn 5", "summary", "turn 6"]
    total, usage = full["requests"]["total"], run.outcome["usage"]
    assert total["total"] == sum(usage.values()) == full["facts"]["tokens"]
    assert total["cost"] == pytest.approx(run.outcome["cost_usd"])


def test_a_run_without_an_answer_shows_the_reason_and_the_resume_command():
    """A run without an answer shows the reason, how to resume it, and the model's latest text."""
    page = report(odd.interrupted_run())
    assert "specialists resume 20261122-040000-5f3a9c" in page
    assert "I read three files at once." in page
    assert "still running" in report(odd.pending_run())


def test_the_status_is_written_out(full):
    """The status is written out with the limit that was reached and how the answer was obtained."""
    assert full["status_words"] == "the limit of 20 tool calls was reached, and the answer was forced in 1 request"
    tape = odd.Tape({})
    tape.land(odd.Kind.TOKENS, Rung.SALVAGE)
    words_of = data(tape.end(tape.outcome("partial", "So far.")))["status_words"]
    assert words_of.endswith("; the context window was full, and the answer was salvaged from the gathered material")


def test_the_page_shows_every_listed_detail():
    """Each listed detail of the run appears in the page; no other test would notice that it is missing."""
    page = html.unescape(report(full_run()))
    for words_of in (
        "codebase-analyst",
        "2026-11-22 04:00 UTC",
        "20 of 20, 2 failed, 2 skipped",
        '<li dir="auto">Whether the thread pool waits',
        "was longer than summary_limit and was cut",
        "At 26.4 s the run was resumed, 2 h 10 min after it stopped.",
        "I look for the loop and for what ends it.",
        "7 tool calls remaining</p>",
        '<b class="state">repeated</b>',
        '<b class="state">skipped</b>',
        "[cut at 20000 of",
        "The tool returned 40,",
        'class="written" x="',
        "You explain how existing code behaves.",
        "Deliver your answer.",
        '"landing": "force"',
        "sha256:4f1c0a7e",
        RESUMED,
        SUMMARY,
    ):
        assert words_of in page, words_of


@pytest.mark.parametrize(
    ("seconds", "text"), [(1.25, "1.2 s"), (59.9, "1 min"), (185, "3 min 5 s"), (273_600, "3 days 4 h")]
)
def test_durations_are_rounded_to_two_units(seconds, text):
    """Durations are rounded to two units, and never to 60 seconds beside minutes."""
    assert formats.lasted(seconds) == text

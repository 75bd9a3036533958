"""The page of a batch: its data and its text."""

import re
from dataclasses import replace

from run_specialist.views.batch_page import EXAMPLES, LONGEST, failures
from tests.views.batch_items import BATCH, STATUSES, cells, item, page_of


def test_each_item_is_a_row():
    """A row has number, input, status, beginning of the answer, quotes found, calls, cost and time."""
    page = page_of(*(item(number, status) for number, status in enumerate(STATUSES, 1)))
    rows = cells(page)
    assert rows[0] == ["1", "docs/1.md, 1", "answered", "Answer 1 about leaks.", "1 of 2", "1", "$0.25", "1 min 5 s"]
    assert rows[5] == ["6", "docs/6.md, 6", "dead", "dead", "–", "–", "–", "–"]
    assert [row[2] for row in rows] == [*STATUSES]
    assert rows[8][3] == "(no answer)"


def test_the_whole_answer_is_folded_in():
    """Below a row are the question, the answer with its Markdown, its quotes and its gaps."""
    (inside,) = re.findall(r'<div class="inside" id="answer-1".*?</details>', page_of(item()), re.DOTALL)
    for part in (
        "What does docs/1.md say?",
        "<strong>Answer</strong>",
        "a.md:1",
        "It does not.",
        "when",
        "b1f00d-0001",
    ):
        assert part in inside
    assert ">verified<" in inside
    assert ">not found in what was read<" in inside


def test_the_head_has_counts_and_cost():
    """The head has the counts by status, the time, and the cost with its limit and the runs of unknown cost."""
    page = page_of(
        item(1),
        item(2),
        item(3, "not run"),
        cost_usd=1.5,
        unknown_costs=1,
        tool_calls=12,
        worked_s=130.0,
        started_at=1_795_348_800.0,
        ended_at=1_795_348_842.0,
        earlier=4,
        batch=replace(BATCH, state="paused", reason="quota, until 12:00", model="opus"),
    )
    text = " ".join(re.sub("<[^>]+>", " ", page.partition("<main>")[0].partition("<body")[2]).split())
    for part in (
        "Items 3, 4 of earlier calls",
        "First start to last end 42 s",
        "Work of all runs 2 min 10 s, 12 tool calls",
        "Cost $1.50 and 1 run of unknown cost, limit $5.00",
        "State paused",
        "Reason quota, until 12:00",
        "Model opus",
        "2 answered 1 not run",
    ):
        assert part in text
    assert 'class="answered" x="0.000%" width="66.667%"' in page
    assert 'class="not-run" x="66.667%" width="33.333%"' in page


def test_failures_are_counted_by_reason():
    """Failures are counted by the kind of the error, or else by its text; the most frequent is first."""
    busy = {"error_kind": "rate_limited", "warnings": ["no quote", "busy (429)"]}
    items = [item(number, "failed", outcome=busy) for number in range(1, 9)]
    odd = item(9, "aborted", outcome={"warnings": ["x" * 1_000 + "\n y"]})
    found = failures([item(10, "dead", error="taken over\n 3 times"), odd, item(11, "dead"), *items])
    assert [(one.reason, one.count, one.example) for one in found] == [
        ("rate limited", 8, "busy (429)"),
        ("taken over 3 times", 1, ""),
        (f"{'x' * (LONGEST - 1)}…", 1, ""),
        ("dead", 1, ""),
    ]
    assert found[0].numbers == [*range(1, EXAMPLES + 1)]
    page = page_of(*items)
    assert '<a href="#answer-5">#5</a> …' in page
    assert "<b>8</b>" in page


def test_a_link_leads_to_the_report_if_there_is_one():
    """The number links to the report in its folder, encoded so that no name is an address of its own."""
    page = page_of(item(1), item(2), reports={"b1f00d-0002": 'report-b1/report-"javascript:x.html'})
    assert '<a href="#answer-1">1</a>' in page
    assert '<a href="report-b1/report-%22javascript%3Ax.html">2</a>' in page


def test_an_offline_answer_says_so():
    """Answers that no model judged are marked, each of them and all together above the table."""
    offline = item(1, outcome={"answer": "A.", "model": "offline"})
    page = page_of(offline, item(2))
    assert page.count('<p class="unjudged">') == 2
    assert "No model judged 1 item: it ran offline" in page
    assert "unjudged" not in page_of(item(2)).partition("<body")[2]

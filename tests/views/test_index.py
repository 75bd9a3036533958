"""The index of runs: its data, and the page in a real browser."""

import re
from dataclasses import replace

import pytest

from run_specialist.evals.comparison import as_json, comparisons
from run_specialist.record.outcome import NO_MODEL
from run_specialist.store.stored import ListedRun
from run_specialist.views import eval_page, run_index
from run_specialist.views.batch_page import EXAMPLES, LONGEST, failures
from run_specialist.views.report import report
from run_specialist.views.run_index import index_data
from tests.evals.compared_runs import case_run, result_of
from tests.views.batch_items import BATCH, STATUSES, cells, item, page_of
from tests.views.full import full_run
from tests.views.test_children import OWLS, RUNS, SAME, parent


def listed(number, **changed):
    """Return a run; the newest has the lowest number."""
    values = {
        "run_id": f"20261122-{number:06d}-5f3a9c",
        "parent_id": None,
        "specialist": ("codebase-analyst", "fact-checker")[number % 2],
        "model": "sonnet",
        "question": f"Question {number} about the way in which the limits of a run are counted and shown"[:80],
        "status": ("answered", "landed", "failed")[number % 3],
        "started_at": 1_795_348_800.0 - 60 * number,
        "ended_at": 1_795_348_830.0 - 60 * number,
        "tool_calls": number % 31,
        "cost_usd": None if number % 7 == 6 else number / 1_000,
    }
    return ListedRun(**(values | changed))


def index_page(*runs, outcomes=None, reports=None):
    """Return the page of an index."""
    return run_index.run_index(index_data(runs, outcomes or {}, reports or {}, "/home/ada/runs.db"))


@pytest.fixture
def show(tab, tmp_path):
    """Return a function that opens an index in the browser."""

    def open_page(text, **options):
        path = tmp_path / "report-index.html"
        path.write_text(text, encoding="utf-8")
        tab.open(path, **options)
        return tab

    return open_page


def test_the_cost_of_a_child_is_counted_once():
    """Runs whose parent is listed are left out of the sum; a fork names its source; a report is a name, no address."""
    parent, child = listed(1, cost_usd=0.5), listed(2, cost_usd=0.2, parent_id=listed(1).run_id)
    orphan = listed(3, cost_usd=0.1, parent_id="gone")
    data = index_data([parent, child, orphan], {}, {}, "here")
    assert data["cost_usd"] == pytest.approx(0.6)
    assert "asked by another run" in run_index.run_index(data)
    fork = listed(1, forked_from=listed(2).run_id, forked_at=3)
    rows = index_data([fork, listed(2)], {}, {}, "here")["runs"]
    assert [(row["forked_from"], row["forked_at"]) for row in rows] == [(listed(2).run_id, 3), (None, None)]
    page = index_page(fork, listed(2), reports={listed(1).run_id: 'report-"/../javascript:x.html'})
    assert f"{fork.run_id}, fork of {listed(2).run_id} at turn 3</small>" in page
    assert page.count("fork of") == 1
    assert 'href="report-%22%2F..%2Fjavascript%3Ax.html"' in page


@pytest.mark.exhaustive
def test_columns_sort_and_rows_are_filtered(show):
    """A click on a head sorts, a second one reverses; words and status filter, and the number of rows is shown."""
    opened = show(index_page(*(listed(number) for number in range(50))))
    column = "[...document.querySelectorAll('tbody tr')].map((row) => row.cells[{}].textContent)"
    opened.run("document.querySelectorAll('thead button')[4].click()")
    calls = opened.run(column.format(4))
    assert calls == sorted(calls, key=int, reverse=True)
    opened.run("document.querySelectorAll('thead button')[4].click()")
    assert opened.run(column.format(4)) == calls[::-1]
    assert opened.run("document.querySelectorAll('[aria-sort]').length") == 1
    opened.run("document.querySelectorAll('thead button')[5].click()")
    assert opened.run(column.format(5))[-7:] == ["unknown"] * 7
    change = (
        "(() => {{ const one = document.querySelector('{}'); one.value = '{}'; one.dispatchEvent(new Event('{}')) }})()"
    )
    opened.run(change.format("input", "FACT question", "input"))
    opened.run(change.format("select", "failed", "change"))
    shown = opened.run("[...document.querySelectorAll('tbody tr')].filter((row) => row.offsetParent).length")
    assert shown == len([number for number in range(50) if number % 2 == 1 and number % 3 == 2])
    assert opened.run("document.querySelector('output').textContent") == f"{shown} of 50 shown"


@pytest.mark.parametrize("evidence", [5, ["x", None, {}], {"source": "a"}, None])
def test_a_malformed_outcome_does_not_break_the_index(evidence):
    """A row of a shared store that holds no proper evidence or duration is listed like any other."""
    one = listed(1)
    data = index_data([one], {one.run_id: {"evidence": evidence, "duration_s": "x"}}, {}, "here")
    assert [row["verified"] for row in data["runs"]] == [0]
    assert one.run_id in run_index.run_index(data)


def test_each_item_is_a_row():
    """Number, input, status, answer, quotes, calls, cost and time; below, all of it; the number may be a link."""
    page = page_of(*(item(number, status) for number, status in enumerate(STATUSES, 1)))
    rows = cells(page)
    assert rows[0] == ["1", "docs/1.md, 1", "answered", "Answer 1 about leaks.", "1 of 2", "1", "$0.25", "1 min 5 s"]
    assert rows[5] == ["6", "docs/6.md, 6", "dead", "dead", "–", "–", "–", "–"]
    assert [row[2] for row in rows] == [*STATUSES]
    assert rows[8][3] == "(no answer)"
    (inside,) = re.findall(r'<div class="inside" id="answer-1".*?</details>', page, re.DOTALL)
    parts = ("What does docs/1.md say?", "<strong>Answer</strong>", "a.md:1", "It does not.", "when", "b1f00d-0001")
    for part in (*parts, ">verified<", ">not found in what was read<"):
        assert part in inside
    offline = item(1, outcome={"answer": "A.", "model": "offline"})
    page = page_of(offline, item(2), reports={"b1f00d-0002": 'report-b1/report-"javascript:x.html'})
    assert '<a href="#answer-1">1</a>' in page
    assert '<a href="report-b1/report-%22javascript%3Ax.html">2</a>' in page
    assert page.count('<p class="unjudged">') == 2
    assert "No model judged 1 item: it ran offline" in page
    assert "unjudged" not in page_of(item(2)).partition("<body")[2]


def test_the_head_has_counts_cost_and_failures_by_reason():
    """Counts by status, time, cost with its limit; failures by kind or text, most frequent first."""
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


HOSTILE = "<script>window.harmed = 1</script><img src=x onerror='window.harmed=1'> {{ 7 * 7 }} \u202e"


def eval_page_of(result, tolerance=0.0, reports=None):
    """Return the page of a result."""
    return eval_page.eval_page(as_json(result, comparisons(result, tolerance)), reports)


def text_of(page):
    """Return the words of the page."""
    return " ".join(re.sub("<[^>]+>", " ", page.partition("<body")[2].partition("<script>")[0]).split())


def hostile():
    """Return a result all of whose texts are hostile."""
    result = result_of([1.0] * 7, [False] * 7, more={HOSTILE: [0.5] * 7})
    run = case_run(HOSTILE, HOSTILE, HOSTILE, False, error=HOSTILE, run_id=HOSTILE)
    return replace(
        result, eval_id=HOSTILE, specialist=HOSTILE, cases=(*result.cases, HOSTILE), runs=(*result.runs, run)
    )


def test_verdicts_variants_and_answers_side_by_side():
    """Each verdict with its interval, each case with its difference, both answers with what only one says marked."""
    result = result_of([1.0] * 7, [0.5] * 6 + [True], seconds=2.0, tool_calls=3, cost_usd=0.25)
    page = eval_page_of(result, 0.05)
    text = text_of(page)
    (comparison,) = comparisons(result, 0.05)
    assert comparison.regression
    assert "as it is worse regression Worse than main by more than the tolerance of 0.05: score -0.43" in text
    assert "main baseline 1.00 7 of 7 $1.75 21 0 14 s" in text
    assert "as it is 0.57 -0.43 7 of 7" in text
    assert text.count("▼ -0.50") == 6
    assert 'class="interval"' in page
    quote = {"source": "src/owl.py:3", "quote": 'eat("mice")', "verified": True}
    result = result_of([1.0], [0.5], question="What do owls eat?", evidence=(quote,), gaps=("rats",))
    before, after = result.runs
    runs = (replace(before, answer="Owls eat mice."), replace(after, answer="Owls eat toads.", evidence=()))
    page = eval_page_of(replace(result, runs=runs))
    text = text_of(page)
    assert text.count("What do owls eat?") == 1
    assert text.count("Not found: rats") == 2
    assert re.findall("<mark>(.*?)</mark>", page)[1:] == ["mice.", "eat(&#34;mice&#34;)", "toads."]
    assert '<blockquote class="code"' in page
    assert "- CitesPath: &#34;src/owl.py&#34;\n- Contains: &#34;eat(\\&#34;mice\\&#34;)&#34;" in page
    assert "- Judge: &#34;The answer does not claim: Owls eat toads.&#34;" in page


def test_the_axis_holds_all_intervals_and_what_is_missing_is_said(monkeypatch):
    """Intervals have one scale; a verdict without one has none; missing cases are said, and too many counted."""
    result = result_of([0.5] * 8, [0.9, 0.8, 0.9, 0.4, 0.9, 0.9, 0.9, 0.9], more={"b": [0.0] * 8})
    page = eval_page_of(result)
    ranges = [tuple(map(float, one)) for one in re.findall(r'class="range" x="([\d.]+)%" width="([\d.]+)%"', page)]
    assert len(ranges) == 2
    assert all(x >= 0 and x + width <= 100 for x, width in ranges)
    assert ranges[0][0] > 40
    assert ranges[1][0] < 10
    assert 'class="interval"' not in eval_page_of(result_of([0.5] * 4, [0.9] * 4))
    result = result_of([], [])
    assert "The eval has no cases." in eval_page_of(result)
    assert "not run" in text_of(eval_page_of(replace(result, cases=("a",))))
    monkeypatch.setattr(eval_page, "MOST_CASES", 2)
    assert "The last 3 cases are not listed" in text_of(eval_page_of(result_of([1.0] * 5, [1.0] * 5)))


def test_e12_runs_are_linked_to_their_reports():
    """A run with a report is a relative link; any other run names the command; hostile texts are escaped."""
    body = eval_page_of(hostile()).partition("<body")[2]
    assert ("<img" in body, body.count("<script>"), "\u202e" in body) == (False, 1, False)
    result = result_of([1.0], [1.0])
    page = eval_page_of(result, reports={"main-case 1-1": 'p-reports/"javascript:x.html'})
    assert '<a href="p-reports/%22javascript%3Ax.html">report</a>' in page
    assert "<code>specialists report as it is-case 1-1</code>" in page


SHOWN = '<p class="unjudged">No model judged: this ran offline, by ranked search and verbatim quotes.</p>'


def offline_run(*warnings: str):
    """Return the full run as if no model had answered it, with these warnings."""
    run = full_run()
    return replace(run, model="offline", outcome={**run.outcome, "model": "offline", "warnings": [*warnings]})


@pytest.mark.parametrize("warnings", [(NO_MODEL,), ()])
def test_the_page_says_that_no_model_judged(warnings):
    """The line is above the answer, once, even of outcomes stored before there was a warning; a child has it too."""
    page = report(offline_run(*warnings))
    assert page.count(SHOWN) == 1
    assert page.index(SHOWN) < page.index('<div class="answer"')
    assert page.lower().count("no model judged") == 1
    assert "<h3>Warnings</h3>" not in page
    page = report(parent(OWLS, SAME), {**RUNS, "a": replace(RUNS["a"], model="offline")})
    assert page.count(SHOWN) == 1
    assert page.index(SHOWN) > page.index('id="specialists"')

"""The index of runs: its data, and the page in a real browser."""

import pytest

from run_specialist.store.stored import ListedRun
from run_specialist.views import run_index
from run_specialist.views.run_index import index_data


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


def page_of(*runs, outcomes=None, reports=None):
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
    """The sum leaves out runs whose parent is listed, because their cost is part of the parent's."""
    parent, child = listed(1, cost_usd=0.5), listed(2, cost_usd=0.2, parent_id=listed(1).run_id)
    orphan = listed(3, cost_usd=0.1, parent_id="gone")
    data = index_data([parent, child, orphan], {}, {}, "here")
    assert data["cost_usd"] == pytest.approx(0.6)
    assert "asked by another run" in run_index.run_index(data)


def test_a_fork_names_the_run_that_it_begins_with():
    """Its row says which run and turn, as text of the page and as data; other rows say nothing."""
    fork = listed(1, forked_from=listed(2).run_id, forked_at=3)
    rows = index_data([fork, listed(2)], {}, {}, "here")["runs"]
    assert [(row["forked_from"], row["forked_at"]) for row in rows] == [(listed(2).run_id, 3), (None, None)]
    page = page_of(fork, listed(2))
    assert f"{fork.run_id}, fork of {listed(2).run_id} at turn 3</small>" in page
    assert page.count("fork of") == 1


def test_a_link_leads_only_to_a_file_in_the_same_folder():
    """The name of a report is encoded, so that no name is a path or an address of its own."""
    text = page_of(listed(1), reports={listed(1).run_id: 'report-"/../javascript:x.html'})
    assert 'href="report-%22%2F..%2Fjavascript%3Ax.html"' in text


@pytest.mark.exhaustive
def test_columns_sort_and_rows_are_filtered(show):
    """A click on a head sorts, a second one reverses; words and status filter, and the number of rows is shown."""
    opened = show(page_of(*(listed(number) for number in range(50))))
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

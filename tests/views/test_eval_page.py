"""The page of an eval."""

import re
from dataclasses import replace

from run_specialist.evals.comparison import as_json, comparisons
from run_specialist.views import eval_page
from tests.evals.compared_runs import case_run, result_of

HOSTILE = "<script>window.harmed = 1</script><img src=x onerror='window.harmed=1'> {{ 7 * 7 }} \u202e"


def page_of(result, tolerance=0.0, reports=None):
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


def test_verdicts_variants_and_cases():
    """The page has each verdict with its interval, the amounts, and each case with the difference."""
    result = result_of([1.0] * 7, [0.5] * 6 + [True], seconds=2.0, tool_calls=3, cost_usd=0.25)
    page = page_of(result, 0.05)
    text = text_of(page)
    (comparison,) = comparisons(result, 0.05)
    assert comparison.regression
    assert "as it is worse regression Worse than main by more than the tolerance of 0.05: score -0.43" in text
    assert "main baseline 1.00 7 of 7 $1.75 21 0 14 s" in text
    assert "as it is 0.57 -0.43 7 of 7" in text
    assert text.count("▼ -0.50") == 6
    assert 'class="interval"' in page


def test_the_axis_holds_all_intervals():
    """Intervals are drawn to one scale, within the axis; a verdict without an interval has none."""
    result = result_of([0.5] * 8, [0.9, 0.8, 0.9, 0.4, 0.9, 0.9, 0.9, 0.9], more={"b": [0.0] * 8})
    page = page_of(result)
    ranges = [tuple(map(float, one)) for one in re.findall(r'class="range" x="([\d.]+)%" width="([\d.]+)%"', page)]
    assert len(ranges) == 2
    assert all(x >= 0 and x + width <= 100 for x, width in ranges)
    assert ranges[0][0] > 40
    assert ranges[1][0] < 10
    assert 'class="interval"' not in page_of(result_of([0.5] * 4, [0.9] * 4))


def test_e12_runs_are_linked_to_their_reports():
    """A run with a report is a relative link; any other run names the command."""
    result = result_of([1.0], [1.0])
    page = page_of(result, reports={"main-case 1-1": 'p-reports/"javascript:x.html'})
    assert '<a href="p-reports/%22javascript%3Ax.html">report</a>' in page
    assert "<code>specialists report as it is-case 1-1</code>" in page


def test_a_result_without_runs_or_cases_gives_a_page(monkeypatch):
    """What is missing is said, and what is too much is counted."""
    result = result_of([], [])
    assert "The eval has no cases." in page_of(result)
    assert "not run" in text_of(page_of(replace(result, cases=("a",))))
    monkeypatch.setattr(eval_page, "MOST_CASES", 2)
    assert "The last 3 cases are not listed" in text_of(page_of(result_of([1.0] * 5, [1.0] * 5)))


def test_e12_hostile_texts_are_escaped():
    """Names, reasons and errors are text; direction marks are shown by name."""
    body = page_of(hostile()).partition("<body")[2]
    assert "<img" not in body
    assert body.count("<script>") == 1
    assert "\u202e" not in body

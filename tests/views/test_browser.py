"""Every page with hostile texts in a real browser: nothing happens, it fits its window, its texts have contrast."""

from dataclasses import replace

import pytest

from run_specialist.views.report import report
from tests.views import batch_items, test_index
from tests.views.batch_items import STATUSES, item, page_of
from tests.views.full import full_run
from tests.views.odd import odd_run
from tests.views.test_page import CONTRASTS

HOSTILE = "<script>window.harmed = 1</script><img src=x onerror='window.harmed=1'> {{ 7 * 7 }} \u202e"


def batch():
    """Return the page of a batch."""
    bad = {"answer": HOSTILE, "evidence": [{"source": HOSTILE, "quote": HOSTILE, "verified": True}], "gaps": [HOSTILE]}
    texts = dict.fromkeys(("batch_id", "specialist", "question", "model", "project", "reason"), HOSTILE)
    odd = batch_items.item(2, HOSTILE, run_id=HOSTILE, question=HOSTILE, input=HOSTILE, error=HOSTILE, outcome=bad)
    items = batch_items.item(), odd, batch_items.item(3, "failed", outcome={"warnings": [HOSTILE, "y" * 150]})
    return batch_items.page_of(*items, batch=replace(batch_items.BATCH, **texts), counts={HOSTILE: 2})


def index():
    """Return the page of an index."""
    texts = dict.fromkeys(("question", "specialist", "model", "status"), HOSTILE)
    return test_index.index_page(test_index.listed(1, **texts), *map(test_index.listed, range(2, 9)))


PAGES = {
    "run": lambda: report(full_run()),
    "odd run": lambda: report(odd_run()),
    "batch": batch,
    "index": index,
    "eval": lambda: test_index.eval_page_of(test_index.hostile(), 0.05),
}


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_safe_and_legible(tab, tmp_path, name):
    """Tags, handlers and templates are shown as text, nothing is requested, no sideways scrolling, contrast of AA."""
    path = tmp_path / "page.html"
    path.write_text(PAGES[name](), encoding="utf-8")
    tab.open(path, width=360, height=740)
    assert tab.run("window.harmed") is None
    assert (tab.requests, tab.complaints) == ([path.as_uri()], [])
    assert tab.run("document.querySelectorAll('img, script').length") == 1
    tab.run("for (const one of document.querySelectorAll('details')) one.open = true")
    for width, dark in ((360, False), (1_400, True)):
        tab.resize(width, 740, dark=dark)
        assert tab.run("document.documentElement.scrollWidth") <= width
        found = tab.run(CONTRASTS)
        assert len(found) > 5
        assert {key: ratio for key, ratio in found.items() if ratio < 4.5} == {}


@pytest.fixture
def show(tab, tmp_path):
    """Return a function that opens a page in the browser."""

    def open_page(text, fragment="", **options):
        path = tmp_path / "report-b1f00d.html"
        path.write_text(text, encoding="utf-8")
        tab.open(path, fragment, **options)
        return tab

    return open_page


@pytest.mark.exhaustive
def test_rows_are_filtered(show):
    """Words, also of the folded answers, and the status filter; the number of rows is shown, other heads disappear."""
    items = [item(number, STATUSES[number % 3]) for number in range(1, 251)]
    opened = show(page_of(*items))
    change = (
        "(() => {{ const one = document.querySelector('{}'); one.value = '{}'; one.dispatchEvent(new Event('{}')) }})()"
    )
    numbers = "[...document.querySelectorAll('tbody tr')].filter((row) => row.offsetParent).map((row) => row.id)"
    opened.run(change.format("input", "LEAKS docs/2", "input"))
    opened.run(change.format("select", "partial", "change"))
    wanted = [f"item-{n}" for n in range(1, 251) if n % 3 == 2 and str(n).startswith("2")]
    assert opened.run(numbers) == wanted
    assert opened.run("document.querySelector('output').textContent") == f"{len(wanted)} of 250 shown"
    heads = "[...document.querySelectorAll('thead')].filter((head) => head.offsetParent).length"
    assert opened.run(heads) == 1
    opened.run(change.format("input", "", "input"))
    opened.run(change.format("select", "any", "change"))
    assert len(opened.run(numbers)) == 250
    assert opened.run(heads) == 3

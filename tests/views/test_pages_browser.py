"""Every page with hostile texts in a real browser: nothing happens, it fits its window, its texts have contrast."""

from dataclasses import replace

import pytest

from run_specialist.views.report import report
from tests.views import batch_items, test_eval_page, test_run_index
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
    return test_run_index.page_of(test_run_index.listed(1, **texts), *map(test_run_index.listed, range(2, 9)))


PAGES = {
    "run": lambda: report(full_run()),
    "odd run": lambda: report(odd_run()),
    "batch": batch,
    "index": index,
    "eval": lambda: test_eval_page.page_of(test_eval_page.hostile(), 0.05),
}


@pytest.mark.exhaustive
@pytest.mark.parametrize(("width", "dark"), [(360, False), (1_400, True)])
@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_safe_and_legible(tab, tmp_path, name, width, dark):
    """Tags, handlers and templates are shown as text, nothing is requested, no sideways scrolling, contrast of AA."""
    path = tmp_path / "page.html"
    path.write_text(PAGES[name](), encoding="utf-8")
    tab.open(path, width=width, height=740, dark=dark)
    assert tab.run("window.harmed") is None
    assert (tab.requests, tab.complaints) == ([path.as_uri()], [])
    assert tab.run("document.querySelectorAll('img, script').length") == 1
    tab.run("for (const one of document.querySelectorAll('details')) one.open = true")
    assert tab.run("document.documentElement.scrollWidth") <= width
    found = tab.run(CONTRASTS)
    assert len(found) > 5
    assert {key: ratio for key, ratio in found.items() if ratio < 4.5} == {}

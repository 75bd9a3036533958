"""The page of a batch in a real browser."""

from dataclasses import replace

import pytest

from tests.views.batch_items import BATCH, STATUSES, item, page_of
from tests.views.test_page import CONTRASTS

HOSTILE = "<script>window.harmed = 1</script><img src=x onerror='window.harmed=1'> {{ 7 * 7 }} \u202e"


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
def test_hostile_text_does_nothing(show, tmp_path):
    """Markup, templates and direction marks in a batch are shown as text; nothing is requested from elsewhere."""
    bad = {"answer": HOSTILE, "evidence": [{"source": HOSTILE, "quote": HOSTILE, "verified": True}], "gaps": [HOSTILE]}
    batch = replace(
        BATCH, **dict.fromkeys(("batch_id", "specialist", "question", "model", "project", "reason"), HOSTILE)
    )
    odd = item(2, HOSTILE, run_id=HOSTILE, question=HOSTILE, input=HOSTILE, error=HOSTILE, outcome=bad)
    text = page_of(item(), odd, item(3, "failed", outcome={"warnings": [HOSTILE]}), batch=batch, counts={HOSTILE: 2})
    opened = show(text)
    assert opened.run("window.harmed") is None
    assert opened.requests == [(tmp_path / "report-b1f00d.html").as_uri()]
    assert opened.complaints == []
    assert opened.run("document.querySelectorAll('img, script').length") == 1


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


@pytest.mark.exhaustive
def test_a_link_opens_the_answer(show):
    """A link to an answer opens it, also if the row was filtered out, and from another page."""
    text = page_of(*(item(number, STATUSES[number % 3]) for number in range(1, 251)))
    seen = "(() => {{ const one = document.getElementById('answer-{}'); return one.checkVisibility() }})()"
    opened = show(text, "#answer-150")
    assert opened.run(seen.format(150)) is True
    assert opened.run(seen.format(7)) is False
    opened.run("document.querySelector('select').value = 'landed'")
    opened.run("document.querySelector('select').dispatchEvent(new Event('change'))")
    opened.run("new Promise((done) => { addEventListener('hashchange', done); location.hash = '#answer-6' })")
    assert opened.run(seen.format(6)) is True
    assert opened.run("document.querySelector('select').value") == "any"


@pytest.mark.exhaustive
@pytest.mark.parametrize("width", [360, 500, 1_400])
def test_the_page_fits_its_window(show, width):
    """At no width the page scrolls sideways, even with long words, and filtered rows are hidden."""
    items = [item(number, input="x" * 150, error="y" * 150) for number in range(1, 9)]
    opened = show(page_of(*items, batch=replace(BATCH, question="z" * 150)), width=width, height=740)
    assert opened.run("document.documentElement.scrollWidth") <= width
    opened.run("document.querySelector('tbody tr').hidden = true")
    assert opened.run("document.querySelector('tbody tr').checkVisibility()") is False


@pytest.mark.exhaustive
@pytest.mark.parametrize("dark", [False, True])
def test_contrast_is_sufficient(show, dark):
    """Texts have a contrast of at least 4.5 (WCAG AA), in light and dark mode."""
    text = page_of(*(item(number, status) for number, status in enumerate(STATUSES, 1)))
    opened = show(text, dark=dark)
    opened.run("for (const one of document.querySelectorAll('details')) one.open = true")
    found = opened.run(CONTRASTS)
    assert len(found) > 10
    assert {key: ratio for key, ratio in found.items() if ratio < 4.5} == {}

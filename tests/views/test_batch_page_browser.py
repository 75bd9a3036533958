"""The page of a batch in a real browser."""

import pytest

from tests.views.batch_items import STATUSES, item, page_of


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

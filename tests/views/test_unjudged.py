"""The page of a run that no model answered says so, above the answer."""

from dataclasses import replace

import pytest

from run_specialist.record.outcome import NO_MODEL
from run_specialist.views.report import report
from tests.views.full import full_run
from tests.views.test_children import OWLS, RUNS, SAME, parent

SHOWN = '<p class="unjudged">No model judged: this ran offline, by ranked search and verbatim quotes.</p>'


def offline_run(*warnings: str):
    """Return the full run as if no model had answered it, with these warnings."""
    run = full_run()
    return replace(run, model="offline", outcome={**run.outcome, "model": "offline", "warnings": [*warnings]})


@pytest.mark.parametrize("warnings", [(NO_MODEL,), ()])
def test_the_page_says_that_no_model_judged(warnings):
    """The line appears above the answer, once, even for outcomes that were stored before there was a warning."""
    page = report(offline_run(*warnings))
    assert page.count(SHOWN) == 1
    assert page.index(SHOWN) < page.index('<div class="answer"')
    assert page.lower().count("no model judged") == 1
    assert "<h3>Warnings</h3>" not in page


def test_a_child_without_a_model_has_the_line_too():
    """The answer of an offline child, on the page of its parent, has the line as well; the parent's own has not."""
    child = replace(RUNS["a"], model="offline")
    page = report(parent(OWLS, SAME), {**RUNS, "a": child})
    assert page.count(SHOWN) == 1
    assert page.index(SHOWN) > page.index('id="specialists"')

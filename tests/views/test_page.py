"""The page of a run in a real browser: self-contained, accessible, and with working links."""

from pathlib import Path

import pytest

from run_specialist.views.report import report
from tests.views import odd
from tests.views.full import full_run

CONTRASTS = Path(__file__).with_name("contrasts.js").read_text(encoding="utf-8")
"""Script that returns the contrast ratio of all texts and shapes, `{name: ratio}`; for shapes as if they were text."""


@pytest.fixture(scope="module")
def full(tmp_path_factory) -> Path:
    """Provide the page of the run that has nearly every feature."""
    path = tmp_path_factory.mktemp("pages") / "full.html"
    path.write_text(report(full_run()), encoding="utf-8")
    return path


def written(folder, run):
    """Write the page of a run to a file, and return its path."""
    path = folder / "page.html"
    path.write_text(report(run), encoding="utf-8")
    return path


@pytest.mark.exhaustive
def test_the_page_makes_no_request_and_reports_no_errors(tab, full):
    """The browser loads a single file and reports no errors, warnings or policy violations."""
    tab.open(full)
    tab.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))")
    assert tab.requests == [full.as_uri()]
    assert tab.complaints == []
    assert tab.run("getComputedStyle(document.querySelector('dl.facts')).display") == "grid"
    assert tab.run("document.querySelector('#calls button').textContent") == "Open all"


@pytest.mark.exhaustive
def test_the_content_security_policy_blocks_connections(tab, full):
    """The content security policy blocks connections, images and foreign scripts, and the console names it."""
    tab.open(full)
    tab.run("fetch('http://127.0.0.1:9/').catch(() => 1)")
    tab.run("const s = document.createElement('script'); s.textContent = 'window.harmed = 1'; document.body.append(s)")
    assert tab.run("window.harmed") is None
    assert tab.requests == [full.as_uri()]
    assert any("Content Security Policy" in str(complaint) for complaint in tab.complaints)


@pytest.mark.exhaustive
@pytest.mark.parametrize("run", [odd.huge_run, odd.interrupted_run, odd.failed_run])
def test_nothing_overflows_at_phone_width(tab, tmp_path, run):
    """At 360 pixels with all sections open, the page scrolls only vertically; wide elements scroll on their own."""
    tab.open(written(tmp_path, run()), width=360, height=740)
    tab.run("for (const one of document.querySelectorAll('details')) one.open = true")
    assert tab.run("document.documentElement.scrollWidth") <= 360
    assert tab.run("document.documentElement.clientWidth") > 300


@pytest.mark.exhaustive
def test_every_summary_can_be_reached_and_opened_by_keyboard(tab, full):
    """Tab reaches each summary in order, Enter opens it, Space closes it, and the focus is visible."""
    tab.open(full)
    summaries = tab.run("document.querySelectorAll('summary').length")
    seen = []
    for _ in range(200):
        tab.press("Tab", 9)
        if tab.run("document.activeElement === document.body"):
            break
        if tab.run("document.activeElement.tagName") == "SUMMARY":
            seen.append(tab.run("[...document.querySelectorAll('summary')].indexOf(document.activeElement)"))
            assert tab.run("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    assert seen == list(range(summaries))
    tab.run("document.querySelector('#call-4 summary').focus()")
    tab.press("Enter", 13, "\r")
    assert tab.run("document.querySelector('#call-4').open")
    tab.press(" ", 32, " ")
    assert not tab.run("document.querySelector('#call-4').open")


@pytest.mark.exhaustive
@pytest.mark.parametrize("scripts", [True, False])
def test_a_click_on_evidence_opens_the_call_and_shows_the_quote(tab, full, scripts):
    """A click on evidence opens its call and shows the quote, even without scripts."""
    tab.send("Emulation.setScriptExecutionDisabled", value=not scripts)
    try:
        tab.open(full)
        place = tab.run(
            "(() => { const link = document.querySelector('.evidence a[href=\"#quote-3\"]');"
            "link.scrollIntoView({ block: 'center' }); const box = link.getBoundingClientRect();"
            "return [box.x + box.width / 2, box.y + box.height / 2] })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            tab.send("Input.dispatchMouseEvent", type=kind, x=place[0], y=place[1], button="left", clickCount=1)
        # The screenshot is taken after the click has taken effect.
        tab.send("Page.captureScreenshot")
        assert tab.run("document.querySelector('#call-12').open")
        assert tab.run("document.querySelectorAll('.call[open]').length") == 1
        assert tab.run("document.querySelector('#quote-3').textContent") == "only finished runs are written"
        box = "document.querySelector('#quote-3').getBoundingClientRect()"
        top, bottom = tab.run(f"[{box}.top, {box}.bottom]")
        assert 0 <= top < bottom <= 900
    finally:
        tab.send("Emulation.setScriptExecutionDisabled", value=False)


@pytest.mark.exhaustive
def test_every_link_has_a_target_and_every_id_is_unique(tab, full):
    """Every link has a target in the page, and every id is unique."""
    tab.open(full)
    assert tab.run("[...document.querySelectorAll('a')].filter((a) => !document.querySelector(a.hash)).length") == 0
    assert (
        tab.run(
            "(() => { const ids = [...document.querySelectorAll('[id]')].map((one) => one.id);"
            "return ids.length - new Set(ids).size })()"
        )
        == 0
    )
    assert tab.run(
        "[...document.querySelectorAll('svg[role=img]')].every((one) => one.getAttribute('aria-label')"
        "|| one.querySelector('title').textContent)"
    )

"""The page of a run in a real browser: self-contained, accessible, and with working links."""

from itertools import pairwise
from pathlib import Path

import pytest

from run_specialist.views.report import report
from tests.browser import browser
from tests.views import odd
from tests.views.full import full_run
from tests.views.odd import many_turns, odd_run

MOST_BYTES = 2_500_000
"""Maximum size of the page of 300 turns with 600 results of 1,500 characters."""

CONTRASTS = Path(__file__).with_name("contrasts.js").read_text(encoding="utf-8")
"""Script that returns the contrast ratio of all texts and shapes, `{name: ratio}`; for shapes as if they were text."""


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """Provide a browser tab that all tests of this module share."""
    with browser(tmp_path_factory.mktemp("browser")) as opened:
        yield opened


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
def test_the_page_makes_no_request_and_reports_no_errors(page, full):
    """The browser loads a single file and reports no errors, warnings or policy violations."""
    page.open(full)
    page.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))")
    assert page.requests == [full.as_uri()]
    assert page.complaints == []
    assert page.run("getComputedStyle(document.querySelector('dl.facts')).display") == "grid"
    assert page.run("document.querySelector('#calls button').textContent") == "Open all"


@pytest.mark.exhaustive
def test_the_content_security_policy_blocks_connections(page, full):
    """The content security policy blocks connections, images and foreign scripts, and the console names it."""
    page.open(full)
    page.run("fetch('http://127.0.0.1:9/').catch(() => 1)")
    page.run("const s = document.createElement('script'); s.textContent = 'window.harmed = 1'; document.body.append(s)")
    assert page.run("window.harmed") is None
    assert page.requests == [full.as_uri()]
    assert any("Content Security Policy" in str(complaint) for complaint in page.complaints)


@pytest.mark.exhaustive
def test_hostile_text_does_nothing(page, tmp_path):
    """Tags, event handlers and templates in a result, a question or a name are shown as text and not executed."""
    path = written(tmp_path, odd_run())
    page.open(path)
    assert page.run("window.harmed") is None
    assert page.requests == [path.as_uri()]
    assert page.complaints == []
    assert "onerror='window.harmed=1'" in page.run("document.querySelector('h1').textContent")
    assert page.run("document.querySelectorAll('img, script').length") == 1


@pytest.mark.exhaustive
@pytest.mark.parametrize("run", [full_run, odd_run, odd.huge_run, odd.interrupted_run, odd.failed_run])
def test_nothing_overflows_at_phone_width(page, tmp_path, run):
    """At 360 pixels with all sections open, the page scrolls only vertically; wide elements scroll on their own."""
    page.open(written(tmp_path, run()), width=360, height=740)
    page.run("for (const one of document.querySelectorAll('details')) one.open = true")
    assert page.run("document.documentElement.scrollWidth") <= 360
    assert page.run("document.documentElement.clientWidth") > 300


@pytest.mark.exhaustive
@pytest.mark.parametrize("dark", [False, True])
def test_contrast_is_sufficient(page, full, dark):
    """Contrast meets WCAG AA (4.5 for text, 3 for bars and lines) against any background, in light and dark mode."""
    page.open(full, dark=dark)
    page.run("for (const one of document.querySelectorAll('details')) one.open = true")
    found = page.run(CONTRASTS)
    assert len(found) > 40
    assert {key: ratio for key, ratio in found.items() if ratio < 4.5} == {}
    background = page.run("getComputedStyle(document.documentElement).backgroundColor")
    assert background == ("rgb(21, 23, 26)" if dark else "rgb(255, 255, 255)")


@pytest.mark.exhaustive
def test_every_summary_can_be_reached_and_opened_by_keyboard(page, full):
    """Tab reaches each summary in order, Enter opens it, Space closes it, and the focus is visible."""
    page.open(full)
    summaries = page.run("document.querySelectorAll('summary').length")
    seen = []
    for _ in range(200):
        page.press("Tab", 9)
        if page.run("document.activeElement === document.body"):
            break
        if page.run("document.activeElement.tagName") == "SUMMARY":
            seen.append(page.run("[...document.querySelectorAll('summary')].indexOf(document.activeElement)"))
            assert page.run("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    assert seen == list(range(summaries))
    page.run("document.querySelector('#call-4 summary').focus()")
    page.press("Enter", 13, "\r")
    assert page.run("document.querySelector('#call-4').open")
    page.press(" ", 32, " ")
    assert not page.run("document.querySelector('#call-4').open")


@pytest.mark.exhaustive
def test_the_first_tab_stop_is_a_skip_link(page, full):
    """The first Tab stop is a skip link, and heading levels never skip a level downwards."""
    page.open(full)
    page.press("Tab", 9)
    assert page.run("document.activeElement.textContent") == "Skip to the answer"
    assert page.run("document.activeElement.getBoundingClientRect().left") >= 0
    page.press("Enter", 13, "\r")
    assert page.run("location.hash") == "#answer"
    levels = page.run("[...document.querySelectorAll('h1, h2, h3')].map((one) => Number(one.tagName[1]))")
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(two - one <= 1 for one, two in pairwise(levels))


@pytest.mark.exhaustive
@pytest.mark.parametrize("scripts", [True, False])
def test_a_click_on_evidence_opens_the_call_and_shows_the_quote(page, full, scripts):
    """A click on evidence opens its call and shows the quote, even without scripts."""
    page.send("Emulation.setScriptExecutionDisabled", value=not scripts)
    try:
        page.open(full)
        place = page.run(
            "(() => { const link = document.querySelector('.evidence a[href=\"#quote-3\"]');"
            "link.scrollIntoView({ block: 'center' }); const box = link.getBoundingClientRect();"
            "return [box.x + box.width / 2, box.y + box.height / 2] })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            page.send("Input.dispatchMouseEvent", type=kind, x=place[0], y=place[1], button="left", clickCount=1)
        # The screenshot is taken after the click has taken effect.
        page.send("Page.captureScreenshot")
        assert page.run("document.querySelector('#call-12').open")
        assert page.run("document.querySelectorAll('.call[open]').length") == 1
        assert page.run("document.querySelector('#quote-3').textContent") == "only finished runs are written"
        box = "document.querySelector('#quote-3').getBoundingClientRect()"
        top, bottom = page.run(f"[{box}.top, {box}.bottom]")
        assert 0 <= top < bottom <= 900
    finally:
        page.send("Emulation.setScriptExecutionDisabled", value=False)


@pytest.mark.exhaustive
def test_white_space_is_kept(page, tmp_path):
    """White space is kept, including an empty first line of a result, which HTML would drop."""
    tape = odd.Tape({})
    tape.turn("", odd.grep("x", "\n\n  two\tthree \n"))
    page.open(written(tmp_path, tape.stored("running")))
    assert page.run("document.querySelectorAll('#result-1 pre')[1].textContent") == "\n\n  two\tthree \n"


@pytest.mark.exhaustive
def test_a_second_click_on_the_same_link_opens_again(page, full):
    """A second click on the same link opens its target again, although the address does not change."""
    page.open(full, "#quote-1")
    page.run("document.querySelector('#call-4').open = false")
    page.run("document.querySelector('.evidence a').click()")
    assert page.run("document.querySelector('#call-4').open")


@pytest.mark.exhaustive
def test_a_long_question_is_shortened_in_the_heading(page, tmp_path):
    """A long question is shortened in the heading, and its full text can be opened."""
    page.open(written(tmp_path, odd.huge_run()))
    assert page.run("document.querySelector('h1').textContent.length") < 600
    assert page.run("document.querySelector('header details pre').textContent.length") == 10_000


@pytest.mark.exhaustive
def test_an_address_with_a_fragment_opens_what_it_names(page, full):
    """An address with the fragment of a call opens that call on loading."""
    page.open(full, "#call-8")
    assert page.run("document.querySelector('#call-8').open")
    page.open(full, "#nothing-here")
    assert page.complaints == []


@pytest.mark.exhaustive
def test_one_button_opens_and_closes_all_calls(page, full):
    """One button opens or closes all calls, and its label says which it will do."""
    page.open(full)
    page.run("document.querySelector('#calls button').click()")
    assert page.run("[...document.querySelectorAll('.call')].every((one) => one.open)")
    assert page.run("document.querySelector('#calls button').textContent") == "Close all"
    page.run("document.querySelector('#calls button').click()")
    assert page.run("document.querySelectorAll('.call[open]').length") == 0


@pytest.mark.exhaustive
def test_every_link_has_a_target_and_every_id_is_unique(page, full):
    """Every link has a target in the page, and every id is unique."""
    page.open(full)
    assert page.run("[...document.querySelectorAll('a')].filter((a) => !document.querySelector(a.hash)).length") == 0
    assert (
        page.run(
            "(() => { const ids = [...document.querySelectorAll('[id]')].map((one) => one.id);"
            "return ids.length - new Set(ids).size })()"
        )
        == 0
    )
    assert page.run(
        "[...document.querySelectorAll('svg[role=img]')].every((one) => one.getAttribute('aria-label')"
        "|| one.querySelector('title').textContent)"
    )


@pytest.mark.exhaustive
def test_the_page_of_a_run_with_300_turns_stays_usable(page, tmp_path):
    """A run of 300 turns has folded groups and few open elements, and all of it can be opened on a phone."""
    path = written(tmp_path, many_turns(300))
    assert path.stat().st_size < MOST_BYTES
    page.open(path, width=360, height=740)
    assert page.complaints == []
    assert page.run("document.querySelectorAll('#timeline .group').length") == 13
    assert page.run("document.documentElement.scrollHeight") < 7_000
    page.open(path, "#turn-150", width=360, height=740)
    assert page.run("Math.abs(document.querySelector('#turn-150').getBoundingClientRect().top)") < 100
    page.run("for (const one of document.querySelectorAll('.group')) one.open = true")
    assert page.run("document.documentElement.scrollWidth") <= 360


@pytest.mark.exhaustive
def test_printing_omits_navigation_and_buttons(page, full):
    """Printing omits navigation and buttons, and prints open sections in full."""
    page.open(full)
    page.send("Emulation.setEmulatedMedia", media="print", features=[])
    try:
        assert page.run("getComputedStyle(document.querySelector('nav')).display") == "none"
        assert page.run("getComputedStyle(document.querySelector('#calls button')).display") == "none"
        assert page.run("getComputedStyle(document.querySelector('#call-4 pre')).maxHeight") == "none"
        assert page.send("Page.printToPDF")["data"]
    finally:
        page.send("Emulation.setEmulatedMedia", media="", features=[])

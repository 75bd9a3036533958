"""The page of a run in a real browser: self-contained, accessible, and with working links."""

import html
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from run_specialist import prompts
from run_specialist.budget import Rung
from run_specialist.views import page as formats
from run_specialist.views.markdown import MOST_CHARACTERS, answer_html
from run_specialist.views.report import data, report
from tests.journals import stored
from tests.plugins.tiers import examples
from tests.terminal import POISON
from tests.views import odd
from tests.views.full import SUMMARY, full_run, grep
from tests.views.recording import Did, recorded, turn

CONTRASTS = Path(__file__).with_name("contrasts.js").read_text(encoding="utf-8")
"""Script that returns the contrast ratio of all texts and shapes, `{name: ratio}`; for shapes as if they were text."""


@pytest.fixture(scope="module")
def full_first(tmp_path_factory) -> Path:
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
def test_the_page_makes_no_request_and_reports_no_errors(tab, full_first):
    """A single file, without errors; every link has a target, every id is unique; the policy blocks all else."""
    tab.open(full_first)
    tab.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))")
    assert tab.requests == [full_first.as_uri()]
    assert tab.complaints == []
    assert tab.run("getComputedStyle(document.querySelector('dl.facts')).display") == "grid"
    assert tab.run("document.querySelector('#calls button').textContent") == "Open all"
    assert tab.run("[...document.querySelectorAll('a')].filter((a) => !document.querySelector(a.hash)).length") == 0
    ids = tab.run("[...document.querySelectorAll('[id]')].map((one) => one.id)")
    assert len(ids) == len(set(ids))
    assert tab.run(
        "[...document.querySelectorAll('svg[role=img]')].every((one) => one.getAttribute('aria-label')"
        "|| one.querySelector('title').textContent)"
    )
    tab.run("fetch('http://127.0.0.1:9/').catch(() => 1)")
    tab.run("const s = document.createElement('script'); s.textContent = 'window.harmed = 1'; document.body.append(s)")
    assert tab.run("window.harmed") is None
    assert tab.requests == [full_first.as_uri()]
    assert any("Content Security Policy" in str(complaint) for complaint in tab.complaints)


@pytest.mark.exhaustive
def test_every_summary_can_be_reached_and_opened_by_keyboard(tab, full_first):
    """Tab reaches each summary in order, Enter opens it, Space closes it, and the focus is visible."""
    tab.open(full_first)
    summaries = tab.run("document.querySelectorAll('summary').length")
    state = (
        "(() => { const one = document.activeElement; return [one.tagName, getComputedStyle(one).outlineStyle,"
        "[...document.querySelectorAll('summary')].indexOf(one)] })()"
    )
    seen = []
    for _ in range(200):
        tab.press("Tab", 9)
        tag, outline, place = tab.run(state)
        if tag == "BODY":
            break
        if tag == "SUMMARY":
            seen.append(place)
            assert outline == "solid"
    assert seen == list(range(summaries))
    tab.run("document.querySelector('#call-4 summary').focus()")
    tab.press("Enter", 13, "\r")
    assert tab.run("document.querySelector('#call-4').open")
    tab.press(" ", 32, " ")
    assert not tab.run("document.querySelector('#call-4').open")


@pytest.mark.exhaustive
@pytest.mark.parametrize("scripts", [True, False])
def test_a_click_on_evidence_opens_the_call_and_shows_the_quote(tab, full_first, scripts):
    """A click on evidence opens its call and shows the quote, even without scripts."""
    tab.send("Emulation.setScriptExecutionDisabled", value=not scripts)
    try:
        tab.open(full_first)
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


# The budget chart on the page of a run: limits, phases, and calls that overlap in time.
def test_time_between_segments_takes_no_space_on_the_axis(full):
    """Two hours between two segments are mentioned; the phases are silent, countdown, and spent from the landing on."""
    assert full["seconds"] == pytest.approx(54.6, abs=0.1)
    assert [mark["words"] for mark in full["timeline"]["marks"]][1] == "Resumed after 2 h 10 min"
    begins = [turn["begin"] for turn in full["turns"]]
    assert begins == sorted(begins)
    assert begins[-1] < full["seconds"]
    bands = full["budget"]["bands"]
    assert [band["phase"] for band in bands] == ["silent", "countdown", "spent"]
    assert all(one["end"] == two["begin"] for one, two in pairwise(bands))
    (landing,) = full["budget"]["landings"]
    assert (landing["how"], landing["at"]) == ("force", bands[-1]["begin"])


def test_the_chart_restarts_where_a_limit_is_raised(full):
    """It rises in steps: 11 calls are 69 % of 16, 55 % of 20; landings side by side share a label; or there is none."""
    kinds = {kind["kind"]: kind for kind in full["budget"]["kinds"]}
    assert [kind for kind in kinds if kinds[kind]["lines"]] == ["tool_calls", "tokens", "time"]
    first, second = kinds["tool_calls"]["lines"]
    assert first[0] == [0.0, 0.0]
    assert (first[-1][1], second[0][1], second[-1][1]) == (0.6875, 0.55, 1.0)
    assert kinds["tool_calls"]["share"] == 1.0
    for kind in ("tokens", "time"):
        before, after = kinds[kind]["lines"]
        assert before[-1][1] == pytest.approx(after[0][1], abs=0.001)
    for kind in kinds.values():
        for line in kind["lines"]:
            assert line == sorted(line)
    assert kinds["tokens"]["lines"][1][-1][1] == pytest.approx(kinds["tokens"]["share"], abs=0.001)
    run = full_run()
    (first,) = [one for one in run.events if one.body.get("event") == "landing"]
    more = [replace(first, at=first.at + 0.1, body={**first.body, "how": "schema"})]
    labels = data(replace(run, events=(*run.events, *more)))["budget"]["labels"]
    assert [one["text"] for one in labels] == ["resumed", "landing: force, schema"]
    assert not data(odd.huge_run())["budget"]["limited"]
    assert "This run had no limits." in report(odd.huge_run())


def test_cache_misses_are_listed_with_their_reason(full):
    """Cache misses have their reason: a summary, a changed tool choice, more than five minutes; the total is right."""
    losses = {loss["turn"]: loss["words"] for loss in full["requests"]["losses"]}
    assert list(losses) == [6, 7, 12]
    assert "a summary replaced the older messages" in losses[6]
    assert "it was sent 2 h 11 min after the previous request" in losses[7]
    assert "its tool choice differs from that of the previous request" in losses[12]
    assert full["requests"]["sentences"] == [
        "10 of 12 requests read from the cache: 102,900 of 157,000 input tokens, 66%.",
        "3 requests missed the cache entry of the previous request.",
    ]
    rows = full["requests"]["rows"]
    assert [row["name"] for row in rows][4:7] == ["turn 5", "summary", "turn 6"]
    total, outcome = full["requests"]["total"], full_run().outcome
    assert total["total"] == sum(outcome["usage"].values()) == full["facts"]["tokens"]
    assert total["cost"] == pytest.approx(outcome["cost_usd"])


def test_the_status_is_written_out(full):
    """With the limit reached and how the answer was obtained; without one, the reason and how to resume the run."""
    page = report(odd.interrupted_run())
    assert "specialists resume 20261122-040000-5f3a9c" in page
    assert "I read three files at once." in page
    assert "still running" in report(odd.pending_run())
    assert full["status_words"] == "the limit of 20 tool calls was reached, and the answer was forced in 1 request"
    run = stored(recorded(turn("So far.")))
    landing = {"reason": "tokens", "how": "salvage", "requests": 0}
    words_of = data(replace(run, outcome={**run.outcome, "status": "partial", "landing": landing}))["status_words"]
    assert words_of.endswith("; the context window was full, and the answer was salvaged from the gathered material")


def test_the_page_shows_every_listed_detail():
    """Each listed detail of the run; its policy forbids all connections, and it contains no addresses."""
    page = html.unescape(report(full_run()))
    for words_of in (
        "codebase-analyst",
        "2026-11-22 04:00 UTC",
        "20 of 20, 2 failed, 2 skipped",
        '<li dir="auto">Whether the thread pool waits',
        "quote not found in the tool results: docs/limits.md:9",
        "At 26.4 s the run was resumed, 2 h 10 min after it stopped.",
        "I look for the loop and for what ends it.",
        "7 tool calls remaining</p>",
        '<b class="state">repeated</b>',
        '<b class="state">skipped</b>',
        "[cut at 20000 of",
        "The tool returned 40,",
        'class="written" x="',
        "You explain how existing code behaves.",
        "Use grep.",
        '"landing": "force"',
        "sha256:4f1c0a7e",
        "of which 11 are used",
        SUMMARY,
    ):
        assert words_of in page, words_of
    assert "default-src 'none'; style-src 'sha256-" in page
    assert not [word for word in ("unsafe", "http://", "https://", "This run had no limits.") if word in page]


@pytest.mark.parametrize(
    ("seconds", "text"), [(1.25, "1.2 s"), (59.9, "1 min"), (185, "3 min 5 s"), (273_600, "3 days 4 h")]
)
def test_durations_are_rounded_to_two_units(seconds, text):
    """Durations are rounded to two units, and never to 60 seconds beside minutes."""
    assert formats.lasted(seconds) == text


ODD_RUNS = [
    odd.odd_run,
    odd.huge_run,
    odd.interrupted_run,
    odd.pending_run,
    odd.empty_run,
    odd.failed_run,
    odd.structured_run,
]


ANSWER = turn("", Did("respond", {"answer": "So."}))


def calls_of(shown):
    """Return all calls in order."""
    return [call for turn in shown["turns"] for call in turn["calls"]]


def text_of(call):
    """Return the full text of a result."""
    return "".join(piece["text"] for piece in call["result"])


@pytest.mark.parametrize("run", ODD_RUNS)
def test_unusual_runs_have_a_page_and_json_data(run):
    """Every unusual run can be written as a page, and its data can be serialized to JSON."""
    kept = run()
    assert json.loads(json.dumps(data(kept)))["run_id"] == kept.run_id
    page = report(kept)
    assert page.startswith("<!doctype html>")
    page.encode("utf-8")


def test_untrusted_text_is_escaped():
    """Text from tools, model, user and file is escaped, and its odd characters are made visible."""
    page = report(odd.odd_run())
    assert page.count("<script>") == page.count("</script>") == 1
    assert "<img" not in page
    assert "&lt;/script&gt;" in page
    assert "⟨ESC⟩[31mred⟨ESC⟩[0m ⟨NUL⟩ ⟨BEL⟩ ⟨DEL⟩ ⟨U+009B⟩" in page
    assert "⟨U+202E⟩desrever⟨U+202C⟩" in page
    assert "⟨U+D83D⟩ half ⟨U+FEFF⟩ שלום" in page
    assert "{{ 7*7 }}" in page
    assert not set(page) & {*map(chr, range(32)), "\x7f", "\x9b", "\u202e"} - {"\n", "\t"}


def test_calls_are_listed_in_order_with_their_state_and_marked_quotes(full):
    """Finished, failed, repeated, cut or skipped; each verified quote names its call, also across numbered lines."""
    first, second, third, unfound = full["answer"]["evidence"]
    assert [one["call"] for one in (first, second, third)] == [4, 5, 12]
    assert [one["target"] for one in (first, second, third)] == ["quote-1", "quote-2", "quote-3"]
    assert unfound["target"] is None
    assert not unfound["verified"]
    marked = {piece["quote"]: piece["text"] for call in calls_of(full) for piece in call["result"] if piece["quote"]}
    assert marked[1] == first["quote"]
    assert marked[2].startswith("with ThreadPoolExecutor() as pool:\n    27\t        return [")
    assert marked[3] == "only finished runs are written"
    both = turn("", grep("x", "the words", is_error=True), grep("y", "a.py:1: the words"))
    answer = {"answer": "So.", "evidence": [{"source": "", "quote": "the words"}]}
    run = stored(recorded(both, turn("", Did("respond", answer))))
    assert [one["call"] for one in data(run)["answer"]["evidence"]] == [2], "an error may repeat the model's text"
    calls = calls_of(full)
    assert [call["number"] for call in calls] == [*range(1, 21), None, None, None]
    assert {call["number"] for call in calls if call["state"] == "failed"} == {6, 11}
    assert [call["number"] for call in calls if call["repeated"]] == [9]
    assert [call["number"] for call in calls if call["whole"] and call["whole"] > call["characters"]] == [8]
    assert [call["state"] for call in calls[-3:]] == ["skipped", "skipped", "answer"]
    assert text_of(calls[-2]) == "Not run: limit reached, read skipped."
    assert [call["ending"] for call in calls[18:20]] == ["1 tool call remaining", "0 tool calls remaining"]
    assert not calls[0]["ending"]
    assert calls[7]["added"] == ["8 tool calls remaining"]
    assert text_of(calls[14]) == prompts.EMPTY_RESULT
    assert calls[14]["ending"] == "5 tool calls remaining"


@pytest.mark.parametrize(
    ("verified", "said"), [(True, ">verified"), (False, "not found in what"), (None, "not looked up")]
)
def test_g_5_the_page_says_whether_a_quote_was_found_or_looked_up_at_all(verified, said):
    """With `evidence: off` a quote is neither verified nor unfound."""
    run = stored(recorded(turn("", grep("x", "a.py:3: other words")), turn("So.")))
    evidence = [{"source": "a.py:3", "quote": "the words", "verified": verified}]
    page = report(replace(run, outcome={**run.outcome, "evidence": evidence}))
    checks = re.findall(r'<span class="check">.*?</span>', page)
    assert [said in check for check in checks] == [True]


def test_identical_turns_keep_their_own_results_and_landing_instructions():
    """Also with a summary between them; an instruction is below the result, and not taken for the countdown."""
    two = turn("", grep("x", "a.py:1: x"), grep("y", "a.py:2: y"))
    first, last, _ = calls_of(data(stored(recorded(two, ANSWER, tool_calls_limit=2, landing="order"))))
    assert first["added"] == ["1 tool call remaining"]
    assert (text_of(last), last["ending"]) == ("a.py:2: y", "0 tool calls remaining")
    assert last["added"] == ["0 tool calls remaining", prompts.landing_instruction(Rung.ORDER, None)]
    same = [grep("x", word, call_id="same") for word in ("one", "two", "three", "four", "five", "six")]
    turns = turn("", *same[:2]), turn("", *same[2:4], grown=9_000), turn("", *same[4:])
    run = stored(recorded(*turns, summary="- notes", summarize_at=10_000))
    assert "summarized" in [event.body["event"] for event in run.events]
    calls = calls_of(data(run))
    assert [text_of(call) for call in calls] == ["one", "two", "three", "four", "five", "six"]
    assert [call["number"] for call in calls] == [1, 2, 3, 4, 5, 6]


# The Markdown of an answer in the report: rendered, but nothing is executed, loaded, or linked except the web.
TAGS = {"a", "blockquote", "br", "code", "div", "em", "h4", "h5", "h6", "hr", "li", "ol", "p", "pre", "s", "span"} | {
    "strong", "table", "tbody", "td", "th", "thead", "tr", "ul",
}  # fmt: skip
ATTRIBUTES = {"href", "rel", "class", "dir", "tabindex", "role", "aria-label", "start"}
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
PIECES = st.sampled_from([
    POISON, "<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "[x](javascript:a)", "[x](JaVaScRiPt:a)",
    "[x](data:text/html,a)", "![i](https://e.org/i.png)", "[![i](data:x)](http://e.org)", '[x](http://e.org "")',
    "<https://e.org/'\"><b>", "[x](https://e.org/'\"onclick=a)", "&lt;b&gt;", "&#x202e;", "&quot;", "](", "[", "`",
    "```html\n", "**", "> ", "- ", "1. ", "\n\n", "|a|b|\n|-|:-:|\n|c|d|\n", "# ", "    <b>", "[r]: file:a\n\n[r]",
])  # fmt: skip
TEXTS = st.lists(st.one_of(PIECES, st.text(max_size=12)), max_size=25).map("".join)


class Tags(HTMLParser):
    """Collects the tags of a page with their attributes, and its text."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.text = [], ""
        self.feed(str(page))

    def handle_starttag(self, tag, attrs):
        """Note a tag."""
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        """Note a text."""
        self.text += data


def html_html(text, evidence=()):
    """Return the HTML of an answer."""
    return answer_html({"text": text, "evidence": evidence})


@settings(max_examples=examples(120))
@given(TEXTS)
@example("[a](https://e.org\"onmouseover='x')")
def test_only_harmless_elements_are_made(text):
    """Whatever the text, there are only these tags and attributes, and each link is one to the web."""
    page = Tags(html_html(text))
    assert {tag for tag, _ in page.tags} <= TAGS
    assert {name for _, attributes in page.tags for name in attributes} <= ATTRIBUTES
    targets = [attributes["href"] for _, attributes in page.tags if "href" in attributes]
    assert all(re.fullmatch(r"https?://[!-~]+", target, re.IGNORECASE) for target in targets)
    assert CONTROL.search(page.text.replace("\r", "")) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("**a** *b* `c`", '<p dir="auto"><strong>a</strong> <em>b</em> <code>c</code></p>'),
        ("# a", '<h4 dir="auto">a</h4>'),
        ("###### a", '<h6 dir="auto">a</h6>'),
        ("one:\ntwo", '<p dir="auto">one:<br />\ntwo</p>'),
        ("```py\n<b>\n```", '<pre class="text" tabindex="0"><code>&lt;b&gt;\n</code></pre>'),
        ("    x", '<pre class="text" tabindex="0"><code>x\n</code></pre>'),
        ("<b>x</b>", '<p dir="auto">&lt;b&gt;x&lt;/b&gt;</p>'),
        ("[a](file:///x)", '<p dir="auto">a <span class="address">(file:///x)</span></p>'),
        ("![<b>](x)", '<p dir="auto">&lt;b&gt; <span class="address">(x)</span></p>'),
        ("[a](mailto:b@c.org)", '<p dir="auto">a <span class="address">(mailto:b@c.org)</span></p>'),
        ("![a](https://e.org/i.png)", '<p dir="auto">a <span class="address">(https://e.org/i.png)</span></p>'),
        (
            "<https://e.org>",
            '<p dir="auto"><a href="https://e.org" rel="noopener noreferrer nofollow">https://e.org</a></p>',
        ),
    ],
)
def test_each_element_has_its_form(text, expected):
    """Headings are below the page's, code and HTML are text, addresses are visible, and no style breaks the policy."""
    assert html_html(text) == f'<div class="markdown">{expected}\n</div>'
    page = Tags(html_html("[https://good.org](https://evil.org)"))
    assert page.text.strip() == "https://good.org (https://evil.org)"
    page = html_html("|a|b|\n|:-:|-:|\n|c|d|")
    assert '<td dir="auto" class="center">c</td>' in page
    assert ('<td dir="auto" class="right">d</td>' in page, "style" in page) == (True, False)


@pytest.mark.parametrize(
    "text", ["**a** " + "x" * MOST_CHARACTERS, "> " * 60 + "**a**", "[No finished answer: limit. This is]\n\n<b>**a**"]
)
def test_long_and_salvaged_answers_are_shown_as_they_are(text):
    """A long answer is not parsed, a salvaged one is no Markdown; quotes of an offline one are only listed below it."""
    evidence = [{"source": "a.md:1", "quote": "one\ntwo"}, {"source": "b.md:2", "quote": "three"}]
    for gap in ("\n", "\n\n"):
        told = gap.join(["It says:", '> "one\ntwo" — a.md:1', '> "three" — b.md:2', '> "four" — c.md:3'])
        assert Tags(html_html(told, evidence)).text.split() == ["It", "says:", '"four"', "—", "c.md:3"]
    assert Tags(html_html(text)).text == text
    assert Tags(html_html(text)).tags == []

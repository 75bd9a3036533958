"""The Markdown of an answer in the report: rendered, but nothing is executed, loaded, or linked except the web."""

import re
from html.parser import HTMLParser

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from run_specialist.views.markdown import MOST_CHARACTERS, answer_html
from tests.terminal import POISON

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


def html(text, evidence=()):
    """Return the HTML of an answer."""
    return answer_html({"text": text, "evidence": evidence})


@settings(max_examples=400, deadline=None)
@given(TEXTS)
@example("[a](https://e.org\"onmouseover='x')")
def test_only_harmless_elements_are_made(text):
    """Whatever the text, there are only these tags and attributes, and each link is one to the web."""
    page = Tags(html(text))
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
    """Headings are below those of the page, code and HTML are text, and addresses are visible."""
    assert html(text) == f'<div class="markdown">{expected}\n</div>'


def test_a_link_shows_where_it_leads():
    """The text of a link cannot hide its address."""
    page = Tags(html("[https://good.org](https://evil.org)"))
    assert page.text.strip() == "https://good.org (https://evil.org)"


def test_columns_are_aligned_by_classes():
    """Style attributes would violate the content security policy."""
    page = html("|a|b|\n|:-:|-:|\n|c|d|")
    assert '<td dir="auto" class="center">c</td>' in page
    assert '<td dir="auto" class="right">d</td>' in page
    assert "style" not in page


def test_quotes_of_the_evidence_are_not_repeated():
    """An offline answer consists of its quotes, which are listed below it, also if they had no blank lines between."""
    evidence = [{"source": "a.md:1", "quote": "one\ntwo"}, {"source": "b.md:2", "quote": "three"}]
    for gap in ("\n", "\n\n"):
        text = gap.join(["It says:", '> "one\ntwo" — a.md:1', '> "three" — b.md:2', '> "four" — c.md:3'])
        assert Tags(html(text, evidence)).text.split() == ["It", "says:", '"four"', "—", "c.md:3"]


@pytest.mark.parametrize(
    "text", ["**a** " + "x" * MOST_CHARACTERS, "> " * 60 + "**a**", "[No finished answer: limit. This is]\n\n<b>**a**"]
)
def test_long_and_salvaged_answers_are_shown_as_they_are(text):
    """A very long answer is not parsed, and the results in a salvaged one are no Markdown."""
    assert Tags(html(text)).text == text
    assert Tags(html(text)).tags == []

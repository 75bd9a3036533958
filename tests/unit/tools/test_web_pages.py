"""The text of pages, and the tool that reads it in parts."""

import pytest

from run_specialist.errors import ToolError
from run_specialist.tools import web
from run_specialist.tools.base import Output
from run_specialist.tools.web import Download, Downloads, fetch_tool, text_of
from run_specialist.tools.web_page import LONGEST_LINE
from tests.unit.tools.web_pages import replied, serving

HTML = b"""<html><head><title>Retries</title></head><body><nav><a href="/">Start</a></nav><main><h1>How it retries</h1>
<p>Payments are retried <b>three times</b>, see <a href="/why">why</a>.</p><pre><code>for i in range(3):
    pay()</code></pre><table><tr><th>try</th><th>after</th></tr><tr><td>2</td><td>5 s</td></tr></table></main>
<script>alert(1)</script></body></html>"""


def page(body, media_type="text/html", charset=None):
    """Return a downloaded page."""
    return Download("https://example.com/a", media_type, charset, body, is_cut=False)


def test_html_becomes_markdown_without_navigation():
    """Headings, links, code and tables of the content stay; navigation and scripts go."""
    text = "\n".join(text_of(page(HTML)))
    assert "# How it retries" in text
    assert "Payments are retried **three times**, see [why](https://example.com/why)." in text
    assert "    pay()" in text
    assert "| 2 | 5 s |" in text
    assert "Start" not in text
    assert "alert" not in text


@pytest.mark.parametrize("media_type", ["text/plain", "text/markdown", "application/json", "application/ld+json", ""])
def test_other_text_stays_as_it_is(media_type):
    """Plain text, Markdown and JSON are returned as they are; a page without a type is taken as text."""
    assert text_of(page(b"# a\n\nb <i>c</i>\n", media_type)) == ["# a", "", "b <i>c</i>"]


@pytest.mark.parametrize(
    ("body", "charset"),
    [
        ("hé".encode("latin-1"), "latin-1"),
        ("hé".encode("utf-16"), None),
        ("\ufeffhé".encode(), None),
        ("hé".encode(), "zip"),
    ],
)
def test_the_encoding_is_that_of_the_server_or_the_page(body, charset):
    """The encoding comes from the server or a byte order mark; anything that is not a text encoding counts as UTF-8."""
    assert text_of(page(body, "text/plain", charset)) == ["hé"]


@pytest.mark.parametrize(
    "charset", ["punycode", "idna", "utf-7", "unicode_escape", "raw_unicode_escape", "hz", "rot13"]
)
def test_p_7_an_encoding_that_is_not_one_of_pages_counts_as_utf_8(charset):
    """Encodings of host names and programs, of which `punycode` takes quadratic time, are not used."""
    body = rb"caf\u00e9-3ba+AGE- ~{<:Ky2;S{#,~}"
    assert text_of(page(body, "text/plain", charset)) == [body.decode()]


def test_p_7_the_encoding_that_html_declares_is_one_of_pages():
    """An encoding that HTML declares is judged as that of the server."""
    html = b'<html><head><meta charset="punycode"></head><body><p>caf-3ba</p></body></html>'
    assert "caf-3ba" in "".join(text_of(page(html)))


@pytest.mark.parametrize("media_type", ["text/plain", ""])
def test_p_7_a_page_that_almost_looks_like_html_is_read_at_once(media_type):
    """A page of 290 empty comments, which a pattern could divide in 2^290 ways, is plain text."""
    body = b"<!---->" * 290 + b"needle"
    (line,) = text_of(page(body, media_type))[-1:]
    assert line.endswith("needle")


@pytest.mark.parametrize(
    ("media_type", "body"), [("image/png", b"\x89PNG"), ("application/pdf", b"%PDF"), ("text/plain", b"a\0b")]
)
def test_what_is_no_text_is_refused(media_type, body):
    """Images, PDF and binary data are refused with their type."""
    with pytest.raises(ToolError, match="only pages of text can be read"):
        text_of(page(body, media_type))


def test_a_page_that_takes_too_long_is_given_up(monkeypatch):
    """A page on which the parser spends minutes is ended, with a reason."""
    monkeypatch.setattr(web, "SECONDS", 0.05)
    with pytest.raises(ToolError, match="it takes more than 0 seconds"):
        text_of(page(HTML))


def test_long_lines_are_wrapped_at_blanks():
    """A long line becomes several, with the same words."""
    words = "word " * 1_000
    lines = text_of(page(words.encode(), "text/plain"))
    assert max(map(len, lines)) <= LONGEST_LINE
    assert " ".join(lines).split() == words.split()


async def fetched(tool, **arguments):
    """Return the text of a call."""
    output = await tool.call(arguments)
    assert isinstance(output, Output)
    return output.text


@pytest.mark.anyio
async def test_a_page_is_read_in_parts_with_one_request():
    """The note says how to read on, which sends no further request; the end is named."""
    lines = "\n".join(f"line {number}" for number in range(1, 51)).encode()
    async with serving(replied(lines)) as pages:
        tool = fetch_tool(Downloads(may_connect=bool), 20_000)
        first = await fetched(tool, url=pages.url(), limit=20)
        assert first.startswith(f"{pages.url()}:\n\nline 1\n")
        assert first.endswith("line 20\n[lines 1-20 of 50; read on with offset=21]")
        assert (await fetched(tool, url=pages.url(), offset=21)).endswith("line 50\n[lines 21-50 of 50]")
        with pytest.raises(ToolError, match="ends before line 51; it has 50 lines"):
            await fetched(tool, url=pages.url(), offset=51)
    assert len(pages.requests) == 1


@pytest.mark.anyio
async def test_a_result_is_within_its_limit():
    """A long page is cut to the limit of a result, and the note counts what was returned."""
    async with serving(replied(b"twenty characters!!\n" * 500)) as pages:
        text = await fetched(fetch_tool(Downloads(may_connect=bool), 1_000), url=pages.url())
    assert len(text) <= 1_000
    count = text.count("twenty")
    assert text.endswith(f"[lines 1-{count} of 500; read on with offset={count + 1}]")


@pytest.mark.anyio
async def test_an_empty_page_says_so():
    """A page without text is not a failure."""
    async with serving(replied(b"")) as pages:
        assert (await fetched(fetch_tool(Downloads(may_connect=bool), 1_000), url=pages.url())).endswith("has no text]")

"""Script that prints the text of a page: `web_page.py URL MEDIA_TYPE CHARSET < BODY`; HTML becomes Markdown.

It runs in a separate process, because patterns, decoders and parsers are native code that cannot be interrupted, and
some pages take them minutes. It imports the standard library only, and trafilatura for HTML.
"""

import codecs
import re
import sys
import textwrap
from contextlib import suppress

LONGEST_LINE = 1_000
"""Maximum length of a line; longer ones are wrapped at blanks, so that a page can be read in parts [characters]."""
# Maximum length of the HTML that is converted [characters].
_MAX_HTML = 2_000_000
# Maximum length of the result; a page has at most half as many bytes [characters].
_MAX_TEXT = 8_000_000
NOT_TEXT = 3
"""Exit code for a page that is not text."""

_HTML = frozenset({"text/html", "application/xhtml+xml"})
_TEXT = re.compile(r"text/.*|application/(.*\+)?(json|xml|yaml|x-yaml|javascript|x-ndjson|toml)|")
_LOOKS_LIKE_HTML = re.compile(rb"(?>\s*<!--.*?-->)*\s*<(!doctype html|html|head|body)\b", re.IGNORECASE | re.DOTALL)
_DECLARED = re.compile(rb"""<meta[^>]{0,200}?charset\s*=\s*["']?([\w.:-]{1,40})""", re.IGNORECASE)
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
# Number of bytes in which a page may declare its encoding.
_HEAD = 2_048
# Encodings of pages, as Python names them; others, such as `punycode`, are no encodings of pages or take for ever.
_ENCODING = re.compile(r"(ascii|utf-(8|16|32)|iso|cp\d|koi8|euc|gb|big5|mac|shift|johab|tis|kz|ptcp|hp).*")


def text_of(body: bytes, url: str, media_type: str, charset: str) -> str | None:
    """Return the text of a page, with short lines; None for a page that is not text.

    media_type: empty if the server states none.
    charset: as the server states it, or empty.
    """
    is_html = media_type in _HTML or (media_type in {"", "text/plain"} and bool(_LOOKS_LIKE_HTML.match(body[:_HEAD])))
    is_binary = b"\0" in body and not body.startswith(_UTF_16)
    if not is_html and (is_binary or not _TEXT.fullmatch(media_type)):
        return None
    text = _decoded(body, charset, is_html=is_html)
    if is_html:
        text = _markdown(text[:_MAX_HTML], url)
    lines = []
    for line in map(str.rstrip, text.splitlines()):
        is_short = len(line) <= LONGEST_LINE
        lines += [line] if is_short else textwrap.wrap(line, LONGEST_LINE, break_on_hyphens=False)
    return "\n".join(lines)[:_MAX_TEXT]


def _decoded(body: bytes, charset: str, *, is_html: bool) -> str:
    declared = _DECLARED.search(body[:_HEAD]) if is_html else None
    if body.startswith(_UTF_16):
        return body.decode("utf-16", "replace")
    for name in (charset, declared[1].decode("ascii", "replace") if declared else ""):
        with suppress(LookupError, ValueError):
            if name and _ENCODING.fullmatch(known := codecs.lookup(name).name):
                return body.decode(known, "replace")
    return body.decode("utf-8-sig", "replace")


def _markdown(html: str, url: str) -> str:
    """Return the content of a page without its navigation, under its title; all of its text if it has no content."""
    import trafilatura  # noqa: PLC0415 - takes a second, and only HTML needs it

    text = trafilatura.extract(
        html, url=url, output_format="markdown", include_links=True, include_comments=False, favor_recall=True
    ) or trafilatura.html2txt(html)
    title = " ".join((trafilatura.extract_metadata(html, default_url=url).title or "").split())
    return f"# {title}\n\n{text}" if title and not text.startswith("#") else text


if __name__ == "__main__":
    page = text_of(sys.stdin.buffer.read(), *sys.argv[1:4])
    if page is None:
        sys.exit(NOT_TEXT)
    sys.stdout.buffer.write(page.encode("utf-8", "replace"))

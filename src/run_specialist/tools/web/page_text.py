"""Extract the text of a downloaded page: HTML as Markdown, other text unchanged."""

import codecs
import re
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path

from run_specialist.errors import ToolError
from run_specialist.tools.files import search_process
from run_specialist.tools.web.downloads import Download

LONGEST_LINE = 1_000
"""Maximum length of a line; longer ones are wrapped at blanks, so that a page can be read in parts [characters]."""

MAX_HTML = 2_000_000
"""Maximum length of the HTML that is converted [characters]."""
SECONDS = 20.0
"""Timeout of the conversion of a page [s]."""

_EXTRACTING = Path(__file__).with_name("extracting.py")
_HTML = frozenset({"text/html", "application/xhtml+xml"})
_TEXT = re.compile(r"text/.*|application/(.*\+)?(json|xml|yaml|x-yaml|javascript|x-ndjson|toml)|")
_LOOKS_LIKE_HTML = re.compile(rb"\s*(<!--.*?-->\s*)*<(!doctype html|html|head|body)\b", re.IGNORECASE | re.DOTALL)
_DECLARED = re.compile(rb"""<meta[^>]{0,200}?charset\s*=\s*["']?([\w.:-]{1,40})""", re.IGNORECASE)
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_HEAD = 2_048
"""Number of bytes in which a page may declare its encoding."""


def text_of(page: Download) -> Sequence[str]:
    """Return the lines of a page.

    Raises ToolError for a page that is not text.
    """
    is_html = page.media_type in _HTML or (
        page.media_type in {"", "text/plain"} and bool(_LOOKS_LIKE_HTML.match(page.body[:_HEAD]))
    )
    is_binary = b"\0" in page.body and not page.body.startswith(_UTF_16)
    if not is_html and (is_binary or not _TEXT.fullmatch(page.media_type)):
        raise ToolError(f"{page.url} is {page.media_type or 'binary'}; only pages of text can be read")
    text = _decoded(page, is_html=is_html)
    if is_html:
        text = _markdown(text, page.url)
    return [part for line in text.splitlines() for part in _wrapped(line.rstrip())]


def _decoded(page: Download, *, is_html: bool) -> str:
    declared = _DECLARED.search(page.body[:_HEAD]) if is_html else None
    if page.body.startswith(_UTF_16):
        return page.body.decode("utf-16", "replace")
    for name in (page.charset, declared and declared[1].decode("ascii", "replace"), "utf-8-sig"):
        try:
            decoder = codecs.lookup(name or "utf-8-sig")
        except LookupError:
            continue
        # Codecs such as `zip` are not text encodings.
        if name and decoder._is_text_encoding:  # noqa: SLF001 - the flag that `bytes.decode` checks
            return decoder.decode(page.body, "replace")[0]
    return page.body.decode("utf-8", "replace")


def _markdown(html: str, url: str) -> str:
    """Return the content of a page as Markdown, under its title.

    Raises ToolError if the conversion fails or takes too long.
    """
    given = html[:MAX_HTML].encode("utf-8", "replace")
    # Parsers of HTML are native code, and some pages take them minutes.
    command = [sys.executable, "-P", str(_EXTRACTING), url]
    try:
        found, code = search_process.run(command, Path("/"), SECONDS, given)
    except (OSError, ValueError) as error:
        raise ToolError(f"{url} cannot be converted to text: {error}") from None
    if code != 0:
        why = f"it takes more than {SECONDS:.0f} seconds" if code is None else "its HTML cannot be parsed"
        raise ToolError(f"{url} cannot be converted to text: {why}")
    return found.decode("utf-8", "replace")


def _wrapped(line: str) -> Sequence[str]:
    if len(line) <= LONGEST_LINE:
        return [line]
    return textwrap.wrap(line, LONGEST_LINE, break_on_hyphens=False, drop_whitespace=True)

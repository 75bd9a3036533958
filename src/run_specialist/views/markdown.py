"""Convert the Markdown of an answer to HTML."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import unquote

from markdown_it import MarkdownIt
from markdown_it.common.utils import escapeHtml
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markupsafe import Markup, escape

from run_specialist.loop.evidence import is_salvaged
from run_specialist.record.outcome import Support
from run_specialist.views.page import cut, legible

# Number of levels by which headings of an answer are demoted.
_DEEPER = 3
_DEEPEST = 6
_HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")
# Elements whose text may run from right to left.
_DIRECTED = ("heading_open", "paragraph_open", "list_item_open", "blockquote_open")
# Maximum block nesting whose content is parsed; lists count as two levels.
_DEEPEST_NESTING = 19
_PARSER = MarkdownIt("commonmark", {"html": False, "maxNesting": _DEEPEST_NESTING + 1})
_PARSER.enable(["table", "strikethrough"])
# A refused link would stay plain text; instead `opens` decides which links can be followed.
_PARSER.validateLink = lambda url: True  # type: ignore[method-assign]  # noqa: ARG005 - called by position


def answer_html(answer: Mapping[str, Any]) -> Markup:
    """Return an answer as HTML elements, without the quotes that its evidence repeats.

    An answer that is too long to be parsed, or was salvaged, is shown as it is written.
    answer: has `text` or `answer`, `evidence`, a list of `source` and `quote`, and maybe `support`, as in an outcome.
    """
    text = str(answer.get("text", answer.get("answer")))
    support = (Support(one["sentence"], (*one["evidence"],), (*one["missing"],)) for one in answer.get("support") or ())
    doubtful = [one for one in support if not one.is_borne_out]
    shown = without_quotes(text, ((one["source"], one["quote"]) for one in answer["evidence"]))
    tokens = None if is_salvaged(text) else parse(shown, legible, doubtful)
    if tokens is None:
        return escape(legible(text))
    for token in tokens:
        if token.tag in _HEADINGS:
            token.tag = f"h{min(int(token.tag[1:]) + _DEEPER, _DEEPEST)}"
        if token.type in _DIRECTED:
            token.attrSet("dir", "auto")
    html = Markup(_Renderer().render(tokens, _PARSER.options, {}))  # noqa: S704 - the renderer escapes all texts
    listed = [Markup("<li>{}</li>").format(legible(str(one))) for one in doubtful]
    below = Markup('<p class="doubt">{}:</p><ul class="doubt">{}</ul>').format(NOT_BORNE_OUT, Markup().join(listed))
    return Markup('<div class="markdown">{}{}</div>').format(html, below if listed else "")


class _Renderer(RendererHTML):
    """Renders tokens; its public methods are named after their types."""

    def text(self, tokens: Sequence[Token], at: int, *_: object) -> str:
        begin, end = DOUBT
        text = escapeHtml(tokens[at].content).replace(begin, '<span class="doubt">')
        return text.replace(end, "<b>?</b></span>")

    def table_open(self, *_: object) -> str:
        return '<div class="scroll" tabindex="0" role="region" aria-label="Table of the answer"><table>\n'

    def table_close(self, *_: object) -> str:
        return "</table></div>\n"

    def td_open(self, tokens: Sequence[Token], at: int, *_: object) -> str:
        # A style attribute would violate the content security policy.
        side = str(tokens[at].attrs.get("style", "")).removeprefix("text-align:")
        aligned = f' class="{side}"' if side in ("left", "center", "right") else ""
        return f'<{tokens[at].tag} dir="auto"{aligned}>'

    th_open = td_open

    def fence(self, tokens: Sequence[Token], at: int, *_: object) -> str:
        return f'<pre class="text" tabindex="0"><code>{escapeHtml(tokens[at].content)}</code></pre>\n'

    def code_block(self, tokens: Sequence[Token], at: int, *_: object) -> str:
        return self.fence(tokens, at)

    def link_open(self, tokens: Sequence[Token], at: int, *_: object) -> str:
        url = str(tokens[at].attrs.get("href", ""))
        return f'<a href="{escapeHtml(url)}" rel="noopener noreferrer nofollow">' if opens(url, mail=False) else ""

    def link_close(self, tokens: Sequence[Token], at: int, *_: object) -> str:
        start = next(one for one in range(at, -1, -1) if tokens[one].type == "link_open")
        url = str(tokens[start].attrs.get("href", ""))
        return ("</a>" if opens(url, mail=False) else "") + _address(url, label_of(tokens[start + 1 : at]))

    def image(self, tokens: Sequence[Token], at: int, *_: object) -> str:
        # It may be part of a link, so it is no link itself.
        label = label_of(tokens[at].children or ())
        return escapeHtml(label) + _address(str(tokens[at].attrs.get("src", "")), label)


def _address(url: str, label: str) -> str:
    shown = shown_address(url, label, legible)
    return f' <span class="address">({escapeHtml(shown)})</span>' if shown else ""


NOT_BORNE_OUT = "Not borne out by what was read"
DOUBT = ("⸢", "⸣")
"""Signs around a sentence that the evidence does not bear out, which a renderer replaces."""
_OWN_SIGNS = str.maketrans("".join(DOUBT), "｢｣")


def with_doubts(text: str, doubtful: Iterable[Support]) -> str:
    """Return a Markdown text with the signs of DOUBT; unchanged if it has such a sign itself.

    A sentence that only a part of an emphasis or a table would enclose stays as it is.
    """
    done, at = "", 0
    for sentence in [one.sentence for one in doubtful] if not any(sign in text for sign in DOUBT) else ():
        found = text.find(sentence, at)
        if found >= 0 and not any(sentence.count(sign) % 2 for sign in ("*", "`")) and "|" not in sentence:
            done += f"{text[at:found]}{DOUBT[0]}{sentence}{DOUBT[1]}"
            at = found + len(sentence)
    return done + text[at:]


Clean = Callable[[str], str]
"""Replaces the characters that could control a terminal or mislead a reader."""

MOST_CHARACTERS = 100_000
"""Maximum length of a parsed text; longer ones are shown as written, because a hostile text takes seconds to parse."""
# Maximum length of the shown address of a link that cannot be opened [characters].
_LONGEST_ADDRESS = 200
# Line length below which a line break is kept; breaks after longer lines are considered wrapping [characters].
_FULL_LINE = 60

_WEB = re.compile(r"https?://[!-~]+", re.IGNORECASE)
_MAIL = re.compile(r"mailto:[!-~]+", re.IGNORECASE)


def parse(text: str, clean: Clean, doubtful: Sequence[Support] = ()) -> "list[Token] | None":
    """Return the tokens of a Markdown text, cleaned; HTML is text, and every link and image is a token.

    Returns None if the text is to be shown as written, because it is very long, or so deeply nested that the parser
    would drop a part of it.
    doubtful: sentences that get the signs of DOUBT.
    clean: applied before parsing, and to the parsed texts, because entities such as `&#x202e;` are decoded by parsing.
    """
    if len(text) > MOST_CHARACTERS:
        return None
    # Signs of the text itself are shown by others that look alike, since a renderer replaces them.
    text = text.translate(_OWN_SIGNS) if any(sign in text for sign in DOUBT) else with_doubts(text, doubtful)
    tokens = _PARSER.parse(clean(text))
    if any(token.level >= _DEEPEST_NESTING for token in tokens):
        return None
    _finish(tokens, clean)
    return tokens


def _finish(tokens: "Iterable[Token]", clean: Clean) -> None:
    """Clean the texts of tokens and their children, and keep the breaks after short lines."""
    length = 0
    for token in tokens:
        token.content = clean(token.content)
        if token.type == "softbreak" and length < _FULL_LINE:
            token.type, token.tag = "hardbreak", "br"
        length = 0 if token.type in ("softbreak", "hardbreak") else length + len(token.content)
        _finish(token.children or (), clean)


def opens(url: str, *, mail: bool = True) -> bool:
    """Return whether a link may be opened: web links, and mail if wanted; never files, scripts or data."""
    return bool(_WEB.fullmatch(url) or (mail and _MAIL.fullmatch(url)))


def shown_address(url: str, label: str, clean: Clean) -> str:
    """Return the address to show after the text of a link; empty if the text is the address.

    An address that can be opened is shown unchanged; others are decoded, and cut if they are long.
    """
    if opens(url):
        return "" if label in (url, url.partition(":")[2]) else url
    decoded = clean(unquote(url))
    return "" if label == decoded else cut(decoded, _LONGEST_ADDRESS)


def without_quotes(answer: str, quotes: Iterable[tuple[str, str]]) -> str:
    """Return an answer without lines that only repeat a quote of its evidence, as the offline researcher writes them.

    quotes: source and quote of each piece of evidence, which is shown below the answer.
    """
    rest = f"\n{answer}\n"
    for source, quote in quotes:
        line = f'\n> "{quote}" — {source}\n'
        rest = rest.replace(line, "\n\n")
        # Code keeps the indentation of its first line there, which evidence does not have.
        code = rf"\n`?{re.escape(source)}`?\n(`{{3,}})\w*\n[ \t]*{re.escape(quote)}\n\1\n"
        rest = re.sub(code, "\n\n", rest)
    return re.sub(r"\n{3,}", "\n\n", rest).strip("\n") if rest != f"\n{answer}\n" else answer


def label_of(tokens: "Sequence[Token]") -> str:
    """Return the plain text of inline tokens."""
    return "".join(label_of(token.children) if token.children else token.content for token in tokens)

"""Convert the Markdown of an answer to HTML: nothing is executed or loaded, and only web links can be opened."""

from collections.abc import Mapping, Sequence
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.common.utils import escapeHtml
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markupsafe import Markup, escape

from run_specialist.loop.evidence import is_salvaged
from run_specialist.views.answer_markdown import label_of, opens, parse, shown_address, without_quotes
from run_specialist.views.page.formats import legible

_DEEPER = 3
"""Number of levels by which headings of an answer are demoted."""
_DEEPEST = 6
_DIRECTED = ("paragraph_open", "list_item_open", "blockquote_open")
"""Elements whose text may run from right to left."""
_OPTIONS = MarkdownIt("commonmark").options


def answer_html(answer: Mapping[str, Any]) -> Markup:
    """Return an answer as HTML elements, without the quotes that its evidence repeats.

    An answer that is too long to be parsed, or was salvaged, is shown as it is written.
    answer: has `text` or `answer`, and `evidence`, a list of `source` and `quote`.
    """
    text = str(answer.get("text", answer.get("answer")))
    shown = without_quotes(text, ((one["source"], one["quote"]) for one in answer["evidence"]))
    tokens = None if is_salvaged(text) else parse(shown, legible)
    if tokens is None:
        return escape(legible(text))
    for token in tokens:
        if token.type in _DIRECTED:
            token.attrSet("dir", "auto")
    html = Markup(_Renderer().render(tokens, _OPTIONS, {}))  # noqa: S704 - the renderer escapes all texts
    return Markup('<div class="markdown">{}</div>').format(html)


class _Renderer(RendererHTML):
    """Renders tokens; its public methods are named after their types."""

    def heading_open(self, tokens: Sequence[Token], at: int, *_: object) -> str:
        return f'<h{_level(tokens[at])} dir="auto">'

    def heading_close(self, tokens: Sequence[Token], at: int, *_: object) -> str:
        return f"</h{_level(tokens[at])}>\n"

    def table_open(self, *_: object) -> str:
        return '<div class="scroll" tabindex="0" role="region" aria-label="Table of the answer"><table>\n'

    def table_close(self, *_: object) -> str:
        return "</table></div>\n"

    def th_open(self, tokens: Sequence[Token], at: int, *_: object) -> str:
        return _cell(tokens[at])

    def td_open(self, tokens: Sequence[Token], at: int, *_: object) -> str:
        return _cell(tokens[at])

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


def _level(token: Token) -> int:
    return min(int(token.tag[1:]) + _DEEPER, _DEEPEST)


def _cell(token: Token) -> str:
    # A style attribute would violate the content security policy.
    side = str(token.attrs.get("style", "")).removeprefix("text-align:")
    aligned = f' class="{side}"' if side in ("left", "center", "right") else ""
    return f'<{token.tag} dir="auto"{aligned}>'


def _address(url: str, label: str) -> str:
    shown = shown_address(url, label, legible)
    return f' <span class="address">({escapeHtml(shown)})</span>' if shown else ""

"""Parse the Markdown of an answer for a terminal or a page; the text is untrusted."""

import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING
from urllib.parse import unquote

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

Clean = Callable[[str], str]
"""Replaces the characters that could control a terminal or mislead a reader."""

MOST_CHARACTERS = 100_000
"""Maximum length of a parsed text; longer ones are shown as written, because a hostile text takes seconds to parse."""
_DEEPEST = 19
"""Maximum block nesting whose content is parsed; lists count as two levels."""
LONGEST_ADDRESS = 200
"""Maximum length of the shown address of a link that cannot be opened [characters]."""
_FULL_LINE = 60
"""Line length below which a line break is kept; breaks after longer lines are considered wrapping [characters]."""

_WEB = re.compile(r"https?://[!-~]+", re.IGNORECASE)
_MAIL = re.compile(r"mailto:[!-~]+", re.IGNORECASE)


def parse(text: str, clean: Clean) -> "list[Token] | None":
    """Return the tokens of a Markdown text, cleaned; HTML is text, and every link and image is a token.

    Returns None if the text is to be shown as written, because it is very long, or so deeply nested that the parser
    would drop a part of it.
    clean: applied before parsing, and to the parsed texts, because entities such as `&#x202e;` are decoded by parsing.
    """
    if len(text) > MOST_CHARACTERS:
        return None
    tokens = _parser().parse(clean(text))
    if any(token.level >= _DEEPEST for token in tokens):
        return None
    _finish(tokens, clean)
    return tokens


@cache
def _parser() -> "MarkdownIt":
    from markdown_it import MarkdownIt  # noqa: PLC0415 - only where Markdown is shown

    parser = MarkdownIt("commonmark", {"html": False, "maxNesting": _DEEPEST + 1}).enable(["table", "strikethrough"])
    # A refused link would stay plain text; instead `opens` decides which links can be followed.
    parser.validateLink = lambda url: True  # type: ignore[method-assign]  # noqa: ARG005 - called by position
    return parser


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
    shown = decoded if len(decoded) <= LONGEST_ADDRESS else f"{decoded[: LONGEST_ADDRESS - 1]}…"
    return "" if label == decoded else shown


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

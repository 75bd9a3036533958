"""Format the evidence and the gaps of an answer for a terminal."""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from rich.console import Group, RenderableType
from rich.text import Text

from run_specialist.cli.console import printable
from run_specialist.cli.screen import Prefixed, Screen
from run_specialist.record.outcome import Evidence

NOT_FOUND = "not found in what was read"
_PROSE = re.compile(r"\.(md|markdown|txt|rst|adoc)\b", re.IGNORECASE)
"""Sources whose line breaks only wrap text."""
_NEW_LINE = re.compile(r"\n(?=[ \t]*([-*+#>|]|[0-9]+[.)] |$)|[ \t]{4})", re.MULTILINE)
"""Line breaks in prose that must be kept: before lists, headings, tables, code and blank lines."""

_OPENINGS = (":", "{", "(", "[")
"""Ends of a code line below which the next lines are indented."""
_STEP = 4
"""Indentation of a code block that does not show its own [columns]."""


def evidence_block(evidence: Sequence[Evidence], screen: Screen, *, marked: bool = True) -> Iterator[RenderableType]:
    """Yield a heading, and each quote with its source and a mark, explained if the quote was not found.

    marked: False = it is unknown yet which quotes were looked up.
    """
    if evidence:
        yield _heading("Evidence", screen)
        yield from (_piece(one, screen, marked=marked) for one in evidence)


def gaps_block(gaps: Iterable[str], screen: Screen) -> Iterator[RenderableType]:
    """Yield a heading, and the things that the specialist looked for without finding them."""
    shown = [Prefixed(_text(gap), screen.either("• ", "- ")) for gap in gaps if gap.strip()]
    if shown:
        yield _heading("Gaps", screen)
        yield Group(*shown)


def _heading(text: str, screen: Screen) -> Text:
    return Text(text if screen.styled else f"{text}:", "bold")


def _piece(one: Evidence, screen: Screen, *, marked: bool) -> RenderableType:
    mark, color, words = {
        True: (screen.either("✓", "+"), "green", ""),
        False: (screen.either("✗", "x"), "red", NOT_FOUND),
        None: (screen.either("•", "-"), "dim", "not looked up" if marked else ""),
    }[one.verified]
    source = Text(printable(" ".join(one.source.split())) or "no source given", "cyan", overflow="fold")
    line = Text.assemble(source, "  " if words else "", (words, color))
    quote = _text(_unwrapped(one.quote) if _PROSE.search(one.source) else _dedented(one.quote))
    return Group(Prefixed(line, f"{mark} ", style=color), Prefixed(quote, "    "))


def _unwrapped(quote: str) -> str:
    """Return prose without the line breaks of its file, so that it can be wrapped again."""
    return _NEW_LINE.sub("\0", quote).replace("\n", " ").replace("\0", "\n")


def _dedented(code: str) -> str:
    """Return code without common indentation; the first line of a quote has already lost its own."""
    first, *further = code.split("\n")
    indented = [len(line) - len(line.lstrip()) for line in further if line.strip()]
    if not indented:
        return code
    levels = sorted(set(indented))
    step = min((upper - lower for lower, upper in pairwise(levels)), default=_STEP)
    of_first = indented[0] - (step if first.rstrip().endswith(_OPENINGS) else 0)
    lost = max(min(of_first, levels[0]), 0)
    return "\n".join([first, *(line[lost:] for line in further)])


def _text(text: str) -> Text:
    return Text(printable(text.strip("\n")), overflow="fold")

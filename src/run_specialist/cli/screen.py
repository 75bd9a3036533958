"""Determine what the terminal can show, and lay out text on it."""

import sys
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment

from run_specialist.cli.console import has_colours

MOST_WIDTH = 100
"""Maximum width of prose, because longer lines are hard to read [columns]."""
_LEAST_WIDTH = 8
"""Minimum width of indented text, even if its lines then exceed a narrower terminal [columns]."""


@dataclass(frozen=True)
class Screen:
    """The capabilities of the terminal."""

    unicode: bool
    """False if the encoding lacks marks and lines outside ASCII."""
    styled: bool
    """False with NO_COLOR or TERM=dumb; then no escape sequence is printed."""

    @classmethod
    def of_stdout(cls) -> "Screen":
        """Return the capabilities of the terminal on standard output."""
        encoding = (getattr(sys.stdout, "encoding", None) or "").lower()
        return cls(encoding.startswith("utf"), has_colours())

    def either(self, character: str, ascii_: str) -> str:
        """Return a character, or its replacement in ASCII."""
        return character if self.unicode else ascii_


class Prefixed:
    """A renderable with one text before its first line, and another before each further line."""

    def __init__(self, content: RenderableType, first: str, rest: str | None = None, style: str = "") -> None:
        """Put texts before the lines of `content`.

        rest: None = as many spaces as `first` is wide.
        style: of both texts.
        """
        self._content, self._first, self._rest, self._style = content, first, rest, style

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        first = Segment(self._first, console.get_style(self._style or "none"))
        rest = Segment(" " * first.cell_length if self._rest is None else self._rest, first.style)
        width = max(options.max_width - first.cell_length, _LEAST_WIDTH)
        inner = options.update(width=width, height=None)
        lines = console.render_lines(self._content, inner, pad=False)
        for number, line in enumerate(lines):
            yield rest if number else first
            yield from line
            yield Segment.line()

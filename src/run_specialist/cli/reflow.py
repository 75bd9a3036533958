"""Erase the rest of a live view that a terminal wrapped because it became narrower."""

import os
from collections.abc import Mapping

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.control import Control
from rich.segment import ControlType, Segment


class Reflow:
    """Renders a live view, and first erases the lines that its last version got by wrapping.

    Rich moves up by as many lines as it printed; a terminal that wraps them anew shows more.
    """

    def __init__(self, console: Console, *, wraps: bool) -> None:
        """Create it for the console of the live view.

        wraps: whether the terminal wraps its content anew when it becomes narrower.
        """
        self._console = console
        self._wraps = wraps
        self._content: RenderableType = ""
        self._widths: list[int] = []
        """Widths of the lines that are on the screen [columns]."""

    def of(self, content: RenderableType) -> "Reflow":
        """Return a renderable that shows `content` in place of what was shown last."""
        self._content = content
        return self

    def is_pending(self) -> bool:
        """Return whether the lines on the screen were wrapped since they were printed."""
        return self._added(self._console.width) > 0

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        up = (ControlType.CURSOR_UP, 1), (ControlType.ERASE_IN_LINE, 2)
        if added := self._added(options.max_width):
            yield Control(*(up * added))
        lines = console.render_lines(self._content, options, pad=False)
        self._widths = [Segment.get_line_length(line) for line in lines][: options.size.height]
        for line in lines:
            yield from line
            yield Segment.line()

    def _added(self, columns: int) -> int:
        """Return how many lines a width adds to those on the screen."""
        return sum(max(width - 1, 0) // max(columns, 1) for width in self._widths) if self._wraps else 0


def wraps_again(environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether the terminal wraps its content anew when it becomes narrower, as nearly all do.

    xterm, GNU screen and the Linux console cut it instead.
    """
    term = environment.get("TERM", "")
    is_screen = term.startswith("screen") and "TMUX" not in environment
    return not ("XTERM_VERSION" in environment or term == "linux" or is_screen)

"""Lines that are redrawn in place, and leave no traces when the terminal is resized."""

from collections.abc import Callable

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.control import Control
from rich.live import Live
from rich.live_render import LiveRender
from rich.segment import ControlType, Segment

# Erased from the second column on: some terminals take an erasure from the very first one for a new screen, and put
# what was there into their history.
_ERASE = "\x1b[2K\x1b[C\x1b[J\x1b[D"
"""Erases the line with the cursor and all below it."""
_WITHOUT_WRAPPING, _WITH_WRAPPING = "\x1b[?7l", "\x1b[?7h"


def live_lines(render: Callable[[], RenderableType], console: Console) -> Live:
    """Return a live display at the bottom of the terminal, which disappears at the end.

    render: returns the lines; each must fit the width of the terminal.
    """
    # Refreshed by a timer, so that the elapsed time advances during long waits.
    live = Live(get_renderable=render, console=console, transient=True, refresh_per_second=8)
    live._live_render = _Lines("")  # noqa: SLF001 - Rich has no other way to change where the cursor stays
    return live


class _Lines(LiveRender):
    """Leaves the cursor at the beginning of its lines, instead of counting rows to find it again.

    A terminal that becomes narrower wraps its content, often before this program learns of it, but keeps the cursor at
    its character. For the same reason the lines are drawn without wrapping, so that each fills exactly one row.
    """

    def position_cursor(self) -> Control:
        """Return the codes that erase the lines."""
        return _control(f"\r{_ERASE}") if self.last_render_height else Control()

    def restore_cursor(self) -> Control:
        """Return the codes that erase the lines, starting from the row below their beginning, where Rich stops."""
        return _control(f"\r\x1b[A{_ERASE}")

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the lines, and the codes that move back to their beginning."""
        yield _control(_WITHOUT_WRAPPING).segment
        yield from super().__rich_console__(console, options)
        above = self.last_render_height - 1
        yield _control("\r" + (f"\x1b[{above}A" if above > 0 else "") + _WITH_WRAPPING).segment


def _control(codes: str) -> Control:
    control = Control()
    # Printed unchanged, with no width; the kind does not matter to terminals that understand codes.
    control.segment = Segment(codes, None, [(ControlType.CARRIAGE_RETURN,)])
    return control

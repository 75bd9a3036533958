"""Lines that are redrawn in place, and that leave nothing behind when the terminal is resized."""

from collections.abc import Callable

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.control import Control
from rich.live import Live
from rich.live_render import LiveRender
from rich.segment import ControlType, Segment


def live_lines(render: Callable[[], RenderableType], console: Console) -> Live:
    """Return a live display at the bottom of the terminal, which disappears at the end.

    render: returns the lines; each must fit the width of the terminal.
    """
    # Refreshed by a timer, so that the elapsed time advances during long waits.
    live = Live(get_renderable=render, console=console, transient=True, refresh_per_second=8)
    live._live_render = _Lines(console)  # noqa: SLF001 - Rich has no other way to replace how the cursor moves
    return live


class _Lines(LiveRender):
    """Knows how many rows its lines fill after a resize: a terminal that becomes narrower wraps what it shows."""

    def __init__(self, console: Console) -> None:
        super().__init__("")
        self._console = console
        self._widths: list[int] = []

    def position_cursor(self) -> Control:
        """Return the codes that erase the lines, and move to where they began."""
        return self._erase(self._rows - 1) if self._widths else Control()

    def restore_cursor(self) -> Control:
        """Return the codes that erase the lines; the cursor is below them."""
        return self._erase(self._rows) if self._widths else Control()

    @property
    def _rows(self) -> int:
        columns = max(self._console.width, 1)
        return sum(max(-(-width // columns), 1) for width in self._widths)

    @staticmethod
    def _erase(above: int) -> Control:
        erase, up = (ControlType.ERASE_IN_LINE, 2), (ControlType.CURSOR_UP, 1)
        return Control(ControlType.CARRIAGE_RETURN, erase, *((up, erase) * above))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the lines, and remember their widths."""
        segments = [segment for segment in super().__rich_console__(console, options) if isinstance(segment, Segment)]
        self._widths = [Segment.get_line_length(line) for line in Segment.split_lines(segments)]
        yield from segments

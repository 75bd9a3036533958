"""Print tables and other renderables of rich, to a terminal or a pipe."""

import re
import shutil
from collections.abc import Sequence
from typing import TYPE_CHECKING

from run_specialist.cli.console import has_colours, is_terminal, print_styled, printable

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

_STYLES = {
    "ok": "green",
    "warning": "yellow",
    "error": "red",
    "blocked": "yellow",
    "default": "bright_black",
    "answered": "green",
    "landed": "green",
    "partial": "yellow",
    "interrupted": "yellow",
    "failed": "red",
    "aborted": "red",
    "running": "cyan",
}
HIGHLIGHT = "bold yellow"
GAP = 2
_MAX_WIDTH = 24
_MAX_FIRST_WIDTH = 30
"""Maximum width of the first column; fits a run id indented by two levels [columns]."""
_UNLIMITED = 1_000_000
"""Width used for a pipe, so that nothing is cut [columns]."""
_ASCII = str.maketrans("▏▎▍▌▋▊▉█", "########")
"""Replacements for the blocks of bars, in an encoding that has none."""


def print_table(head: Sequence[str], rows: Sequence[Sequence[str]], highlight: re.Pattern[str] | None = None) -> None:
    """Print rows in columns: uncut in a pipe, cut to the width of a terminal.

    On a terminal that is too narrow for the last column, each of its cells gets a line below its row.
    highlight: what to highlight in the last column, on a terminal.
    """
    from rich.text import Text  # noqa: PLC0415 - fast `--help`

    if not is_terminal():
        print_rendered(_table(head, rows, [None for _ in head]), _UNLIMITED)
        return
    rows = [[printable(cell) for cell in row] for row in rows]
    width = shutil.get_terminal_size().columns
    limits = [_MAX_FIRST_WIDTH, *(_MAX_WIDTH for _ in head[2:])]
    front = _table(head[:-1], [row[:-1] for row in rows], limits)
    last = max(Text(row[-1]).cell_len for row in (head, *rows))
    if _console(_UNLIMITED).measure(front).maximum + GAP + min(last, _MAX_WIDTH) <= width:
        print_rendered(_table(head, rows, [*limits, None], highlight), width)
        return
    below = [shortened(" " * GAP + row[-1], width) for row in rows]
    print_table_with_lines(head[:-1], [row[:-1] for row in rows], below)


def print_table_with_lines(head: Sequence[str], rows: Sequence[Sequence[str]], below: Sequence[str]) -> None:
    """Print rows in columns, each followed by a line that is printable and short enough.

    The first column holds run ids, which users copy: it is not cut even if it does not fit.
    """
    limits = [_UNLIMITED, *(_MAX_WIDTH for _ in head[1:])]
    shown = [[printable(cell) for cell in row] for row in rows]
    first, *lines = _lines(_table(head, shown, limits), _UNLIMITED)
    print_styled(first)
    for line, after in zip(lines, below, strict=True):
        print_styled(f"{line}\n{after}")


def shortened(text: str, width: int) -> str:
    """Return a text cut to a width, with an ellipsis."""
    from rich.text import Text  # noqa: PLC0415 - fast `--help`

    cut = Text(text)
    cut.truncate(width, overflow="ellipsis")
    return cut.plain


def cell_width(text: str) -> int:
    """Return the width of a text on a terminal [columns]."""
    from rich.text import Text  # noqa: PLC0415 - fast `--help`

    return Text(printable(text)).cell_len


def print_rendered(renderable: "RenderableType", width: int | None = None) -> None:
    """Print a renderable, in color if the terminal shows colors, without trailing spaces.

    width: in columns; None = that of the terminal.
    """
    print_styled("\n".join(rendered_lines(renderable, width)))


def rendered_lines(renderable: "RenderableType", width: int | None = None) -> list[str]:
    """Return the lines of a renderable as `print_rendered` prints them."""
    return _lines(renderable, width or shutil.get_terminal_size().columns)


def _table(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    limits: Sequence[int | None],
    highlight: re.Pattern[str] | None = None,
) -> "Table":
    """Return a table without borders.

    limits: the maximum width of each column; None = that of its cells, or less if there is no space.
    highlight: what to highlight in the last column.
    """
    from rich.table import Table  # noqa: PLC0415 - fast `--help`
    from rich.text import Text  # noqa: PLC0415 - fast `--help`

    table = Table(box=None, padding=(0, GAP, 0, 0), pad_edge=False, header_style="")
    for name, limit in zip(head, limits, strict=True):
        table.add_column(Text(name), no_wrap=limit is not None, overflow="ellipsis", max_width=limit)
    for row in rows:
        cells = [Text(cell, _STYLES.get(cell, ""), no_wrap=True) for cell in row]
        if highlight:
            cells[-1].highlight_regex(highlight, HIGHLIGHT)
        table.add_row(*cells)
    return table


def _lines(renderable: "RenderableType", width: int) -> list[str]:
    console = _console(width)
    with console.capture() as captured:
        console.print(renderable)
    text = captured.get().removesuffix("\n")
    return [line.rstrip() for line in (text.translate(_ASCII) if console.options.ascii_only else text).split("\n")]


def _console(width: int) -> "Console":
    from rich.console import Console  # noqa: PLC0415 - fast `--help`

    colors = has_colours()
    return Console(
        width=width, color_system="standard" if colors else None, force_terminal=colors, legacy_windows=False
    )

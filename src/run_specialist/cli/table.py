"""Tables for a terminal, and for a pipe."""

import os
import shutil
import sys
from collections.abc import Sequence

import typer

from run_specialist.cli.console import print_line

_COLOURS = {
    "ok": typer.colors.GREEN,
    "warning": typer.colors.YELLOW,
    "error": typer.colors.RED,
    "default": typer.colors.BRIGHT_BLACK,
}
_GAP = 2
_WIDEST = 24


def print_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows in columns: cut to the width of a terminal, and whole where there is none."""
    from rich.cells import cell_len, set_cell_size  # noqa: PLC0415 - fast `--help`

    terminal = sys.stdout is not None and sys.stdout.isatty()
    widths = [max(map(cell_len, column)) for column in zip(*(head, *rows), strict=True)]
    if terminal:
        widths = [min(width, _WIDEST) for width in widths[:-1]]
        widths.append(max(_WIDEST, shutil.get_terminal_size().columns - sum(widths) - _GAP * len(widths)))
    coloured = terminal and not os.environ.get("NO_COLOR")
    for row in (head, *rows):
        cells = []
        for cell, width in zip(row, widths, strict=True):
            text = set_cell_size(cell, width - 1) + "…" if cell_len(cell) > width else set_cell_size(cell, width)
            cells.append(typer.style(text, fg=_COLOURS[cell]) if coloured and cell in _COLOURS else text)
        print_line((" " * _GAP).join(cells).rstrip())

"""Tables for a terminal, and for a pipe."""

import shutil
from collections.abc import Sequence

import typer

from run_specialist.cli.console import has_colours, is_terminal, print_line, print_styled, printable

_COLOURS = {
    "ok": typer.colors.GREEN,
    "warning": typer.colors.YELLOW,
    "error": typer.colors.RED,
    "default": typer.colors.BRIGHT_BLACK,
    "answered": typer.colors.GREEN,
    "landed": typer.colors.GREEN,
    "partial": typer.colors.YELLOW,
    "interrupted": typer.colors.YELLOW,
    "failed": typer.colors.RED,
    "aborted": typer.colors.RED,
    "running": typer.colors.CYAN,
}
_GAP = 2
_WIDEST = 24
_WIDEST_FIRST = 30
"""Room for the id of a run two levels below another."""


def print_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows in columns: whole where there is no terminal, else cut to its width.

    Where it is so narrow that the last column would have next to nothing, that gets a line of its own.
    """
    from rich.cells import cell_len  # noqa: PLC0415 - fast `--help`

    if not is_terminal():
        widths = [max(map(cell_len, column)) for column in zip(head, *rows, strict=True)]
        for row in (head, *rows):
            print_line((" " * _GAP).join(map(_fitted, row, widths)).rstrip())
        return
    rows = [[printable(cell) for cell in row] for row in rows]
    most = [_WIDEST_FIRST, *(_WIDEST for _ in head[1:])]
    widths = [
        min(max(map(cell_len, column)), room) for column, room in zip(zip(head, *rows, strict=True), most, strict=True)
    ]
    columns = shutil.get_terminal_size().columns
    left = columns - sum(widths[:-1]) - _GAP * len(widths[:-1])
    below, widths[-1] = left < widths[-1], left
    for row in (head, *rows):
        cells = [_coloured(cell, width) for cell, width in zip(row[:-1], widths, strict=False)]
        last = _fitted(row[-1], columns - _GAP if below else widths[-1])
        print_styled((" " * _GAP).join([*cells, *([] if below else [last])]).rstrip())
        if below and row is not head:
            print_styled(" " * _GAP + last.rstrip())


def _coloured(cell: str, width: int) -> str:
    fitted = _fitted(cell, width)
    return typer.style(fitted, fg=_COLOURS[cell]) if cell in _COLOURS and has_colours() else fitted


def _fitted(cell: str, width: int) -> str:
    from rich.cells import cell_len, set_cell_size  # noqa: PLC0415 - fast `--help`

    return set_cell_size(cell, width - 1) + "…" if cell_len(cell) > width else set_cell_size(cell, width)

"""Print unified diffs, on a terminal in colors."""

from typing import TextIO

import typer

from run_specialist.cli.console import has_colours, is_terminal, print_styled, printable

_COLOURS = {"+": "green", "-": "red", "@": "cyan"}


def print_diff(diff: str, to: TextIO | None = None) -> None:
    """Print a diff; on a terminal control characters are replaced, elsewhere it is printed unchanged.

    to: the stream; None for standard output.
    """
    text = diff.removesuffix("\n")
    if is_terminal(to):
        colours = has_colours(to)
        text = "\n".join(_styled(line) if colours else printable(line) for line in text.split("\n"))
    if text:
        print_styled(text, to)


def _styled(line: str) -> str:
    is_header = line.startswith(("+++", "---", "diff "))
    colour = None if is_header else _COLOURS.get(line[:1])
    return typer.style(printable(line), fg=colour, bold=is_header or None) if colour or is_header else printable(line)

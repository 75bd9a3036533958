"""Wrap messages on a terminal between words."""

import os
import sys
from contextlib import suppress

_INDENT = "  "
"""Indentation of a message's further lines."""
_USUAL_WIDTH = 80


def wrapped(text: str, width: int, command: str = "") -> list[str]:
    """Return a text as lines that break only between words; further lines are indented.

    width: [columns]; a longer word or command gets a separate line.
    command: a part of the text that counts as one word.
    """
    from rich.cells import cell_len  # noqa: PLC0415 - only a terminal needs it

    before, found, after = text.partition(command) if command else (text, "", "")
    lines, free = [""], width
    for word in (*before.split(), *filter(None, [found]), *after.split()):
        longer = f"{lines[-1]} {word}" if lines[-1].strip() else lines[-1] + word
        if lines[-1].strip() and cell_len(longer) > free:
            lines, free = [*lines, _INDENT + word], width
        else:
            lines[-1] = longer
    return lines


def stderr_width() -> int:
    """Return the width of the terminal on standard error; standard output may be a pipe."""
    with suppress(ValueError):
        if (columns := int(os.environ.get("COLUMNS", ""))) > 0:
            return columns
    with suppress(OSError, ValueError, AttributeError):
        return os.get_terminal_size(sys.stderr.fileno()).columns or _USUAL_WIDTH
    return _USUAL_WIDTH

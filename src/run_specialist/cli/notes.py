"""Notes about a run on standard error: on a terminal dim and wrapped at words, else one line each."""

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress

from run_specialist.cli.console import is_terminal, labelled, printable, say

_INDENT = "  "
"""Before the further lines of a note."""
_USUAL_WIDTH = 80


def note(text: str, *, command: str | None = None, dim: bool = True) -> None:
    """Print a note to standard error.

    command: a part of the text that is not wrapped on a terminal, so that it can be copied.
    """
    if sys.stderr is None or not is_terminal(sys.stderr):
        say(text)
        return
    lines = wrapped(printable(text), _width(), printable(command or ""), len(labelled("")))
    say("\n".join(lines), dim=dim)


def without_shown(warnings: Iterable[str], *, alone: bool) -> Iterator[str]:
    """Yield the warnings that the answer on a terminal does not show itself: it marks the quotes that were not found.

    alone: the answer is printed without its evidence.
    """
    from run_specialist.loop.founded import QUOTE_NOT_FOUND  # noqa: PLC0415 - fast `--help`

    shown = not alone and is_terminal() and sys.stderr is not None and is_terminal(sys.stderr)
    return (warning for warning in warnings if not (shown and warning.startswith(QUOTE_NOT_FOUND)))


def wrapped(text: str, width: int, command: str = "", used: int = 0) -> list[str]:
    """Return a text as lines that break only between words; further lines are indented.

    width: [columns]; a longer word, or a longer command, is a line of its own.
    command: a part of the text that counts as one word.
    used: columns of the first line before the text.
    """
    from rich.cells import cell_len  # noqa: PLC0415 - only a terminal needs it

    before, found, after = text.partition(command) if command else (text, "", "")
    lines, free = [""], width - used
    for word in (*before.split(), *filter(None, [found]), *after.split()):
        longer = f"{lines[-1]} {word}" if lines[-1].strip() else lines[-1] + word
        if lines[-1].strip() and cell_len(longer) > free:
            lines, free = [*lines, _INDENT + word], width
        else:
            lines[-1] = longer
    return lines


def _width() -> int:
    """Return the width of the terminal on standard error; standard output may be a pipe."""
    with suppress(ValueError):
        if (columns := int(os.environ.get("COLUMNS", ""))) > 0:
            return columns
    with suppress(OSError, ValueError, AttributeError):
        return os.get_terminal_size(sys.stderr.fileno()).columns or _USUAL_WIDTH
    return _USUAL_WIDTH

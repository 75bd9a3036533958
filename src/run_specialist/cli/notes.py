"""Print notes about a run to standard error: dimmed and wrapped on a terminal, otherwise one line each."""

import sys
from collections.abc import Iterable, Iterator

from run_specialist.cli.console import is_terminal, say


def note(text: str, *, command: str | None = None, dim: bool = True) -> None:
    """Print a note to standard error.

    command: a part of the text that is not wrapped on a terminal, so that it can be copied.
    """
    say(text, dim=dim, command=command)


def without_shown(warnings: Iterable[str], *, alone: bool) -> Iterator[str]:
    """Yield the warnings except those that the answer on a terminal shows itself, by marking quotes as not found.

    alone: whether the answer is printed without its evidence.
    """
    from run_specialist.loop.founded import QUOTE_NOT_FOUND  # noqa: PLC0415 - fast `--help`

    shown = not alone and is_terminal() and sys.stderr is not None and is_terminal(sys.stderr)
    return (warning for warning in warnings if not (shown and warning.startswith(QUOTE_NOT_FOUND)))

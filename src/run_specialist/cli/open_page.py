"""Open a page in the user's browser."""

import os
import sys
from pathlib import Path

from run_specialist.cli.console import say

_ON_TERMINALS = frozenset({"www-browser", "links", "elinks", "lynx", "w3m"})
"""Browsers that run in the terminal; without one they would hang or write to a log."""


def open_page(path: Path) -> None:
    """Open a file in the browser; if there is none, print one line with the address of the file.

    BROWSER chooses the browser, as for Python's `webbrowser`.
    """
    import webbrowser  # noqa: PLC0415 - fast `--help`

    # An absolute file:// address: its special characters are encoded, so that no shell or option parser sees them.
    address = path.resolve().as_uri()
    try:
        first = os.path.basename(getattr(webbrowser.get(), "name", ""))  # noqa: PTH119 - as webbrowser does
        usable = first not in _ON_TERMINALS or (sys.stdin is not None and sys.stdin.isatty())
        opened = usable and webbrowser.open(address)
    except (webbrowser.Error, OSError, ValueError):
        opened = False
    if not opened:
        say(f"no browser could be started; open {address}")

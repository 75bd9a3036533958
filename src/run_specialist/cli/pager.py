"""Show a long text through the user's pager, as git does."""

import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress

from run_specialist.cli.console import print_styled, say

_LESS = "less"
_SETTINGS = {"LESS": "FRX", "LV": "-c"}
"""Default settings of pagers: show colors, leave the text on the screen, exit immediately if it fits."""
_NOT_STARTED = (126, 127)
"""Exit codes of a shell that could not run the command."""


def page(text: str) -> None:
    """Print a text on a terminal: through the pager if it is longer than the screen.

    text: its untrusted parts must have passed `printable`.
    """
    command = pager()
    if not command or text.count("\n") + 1 < shutil.get_terminal_size().lines:
        print_styled(text)
        return
    if _show(command, text) in _NOT_STARTED:
        say(f"the pager could not be run: {command}; set PAGER to another command, or to cat for none")
        print_styled(text)


def pager() -> str:
    """Return the command of the pager: PAGER, else `less`; empty if there is none or none is wanted."""
    command = os.environ.get("PAGER")
    if command is None:
        command = _LESS if shutil.which(_LESS) else ""
    is_dumb = os.environ.get("TERM", "").lower() in ("dumb", "unknown")
    return "" if is_dumb or command.strip() == "cat" else command.strip()


def _show(command: str, text: str) -> int:
    """Run the pager until its user leaves it; return its exit code."""
    encoding = sys.stdout.encoding or "utf-8"
    environment = _SETTINGS | os.environ
    # Ctrl-C belongs to the pager, where it stops a search. A handler, unlike SIG_IGN, is not inherited by the pager.
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        # PAGER is a shell command, as for git and man.
        process = subprocess.Popen(command, shell=True, stdin=subprocess.PIPE, env=environment)  # noqa: S602
        with suppress(BrokenPipeError):
            process.communicate(f"{text}\n".encode(encoding, "backslashreplace"))
        return process.wait()
    finally:
        signal.signal(signal.SIGINT, before)

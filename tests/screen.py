"""The screen of a terminal: what a user sees after cursor movements, erasures and colors."""

import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Sequence
from fcntl import ioctl
from typing import Any

from tests.forked_program import ForkedProgram

_PARTS = re.compile(r"\x1b\]8;[^\x1b]*\x1b\\|\x1b\[\??[0-9;]*[A-Za-z]|.", re.DOTALL)
_MAIN = {
    "run-specialist": "import sys; sys.argv[0] = 'run-specialist'; from run_specialist.cli.ask import main; main()",
    "specialists": "import sys; sys.argv[0] = 'specialists'; from run_specialist.cli.manage import main; main()",
}
SECONDS = 60
"""Timeout for a command [s]."""


def screen(written: str, width: int) -> list[str]:
    """Return the lines of an endless screen, without spaces at their ends and empty lines at the end.

    written: uses only the escape sequences of the program: colors, links, and rich's cursor movements.
    """
    lines, row, column = [""], 0, 0
    for part in _PARTS.findall(written):
        if part == "\r":
            column = 0
        elif part == "\n":
            row += 1
        elif part.endswith("A") and len(part) > 1:
            row = max(row - int(part[2:-1] or 1), 0)
        elif part.endswith(("C", "D")) and len(part) > 1:
            column = max(column + int(part[2:-1] or 1) * (1 if part[-1] == "C" else -1), 0)
        elif part.endswith("J") and len(part) > 1:
            lines = [*lines[:row], lines[row][:column]]
        elif part.endswith("K") and len(part) > 1:
            lines[row] = "" if part == "\x1b[2K" else lines[row][:column]
        elif len(part) == 1:
            if column >= width:
                row, column = row + 1, 0
            lines += [""] * (row + 1 - len(lines))
            lines[row] = lines[row][:column].ljust(column) + part + lines[row][column + 1 :]
            column += 1
        lines += [""] * (row + 1 - len(lines))
    return "\n".join(line.rstrip() for line in lines).rstrip("\n").split("\n")


def run_on_terminal(
    command: Sequence[str],
    *,
    columns: int = 80,
    rows: int = 50,
    outputs: str = "both",
    typed: str = "",
    **environment: str,
) -> tuple[str, str, int]:
    """Run a command on a pseudo-terminal; return what it wrote there, what it wrote to a pipe, and its exit code.

    outputs: the outputs that are the terminal: both, out, or err; the other one is the pipe.
    typed: what the user types, as early as possible.
    """
    ours, theirs = pty.openpty()
    ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    env = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "LINES", "NO_COLOR", "PAGER")}
    env |= {"TERM": "xterm-256color", "PYTHONIOENCODING": "utf-8"} | environment
    program, *arguments = command
    line = [sys.executable, "-W", "error", "-c", _MAIN[program], *arguments]
    given: dict[str, Any] = {"stdin": theirs, "stdout": theirs, "stderr": theirs, "env": env}
    given |= {"both": {}, "out": {"stderr": subprocess.PIPE}, "err": {"stdout": subprocess.PIPE}}[outputs]
    with ForkedProgram(line, **given) as process:
        os.close(theirs)
        os.write(ours, typed.encode())
        written = b""
        while True:
            try:
                written += os.read(ours, 65_536)
            except OSError:  # the program has closed the terminal
                break
        piped = b"".join(part for part in process.communicate(timeout=SECONDS) if part)
    os.close(ours)
    return written.decode("utf-8", "surrogateescape"), piped.decode(), process.returncode

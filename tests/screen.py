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

_CODES = re.compile(r"\x1b\[\??[0-9;]*[A-Za-z]|\n|\r|[^\x1b\n\r]")
_LINKS = re.compile(r"\x1b\]8;[^\x1b]*\x1b\\")
MAINS = {
    "run-specialist": "import sys; sys.argv[0] = 'run-specialist'; from run_specialist.cli.ask import main; main()",
    "specialists": "import sys; sys.argv[0] = 'specialists'; from run_specialist.cli.manage import main; main()",
}
SECONDS = 60
"""Timeout for a command [s]."""


class ReflowingTerminal:
    """Interprets the codes that the live view uses; its lines are long enough to never scroll."""

    def __init__(self, width: int) -> None:
        self.width = width
        self._rows: list[list[str]] = [[]]
        self._is_wrapped = [False]
        """For each row, whether it continues in the next one."""
        self._row = self._column = 0
        self._wraps = True

    @property
    def rows(self) -> list[str]:
        """The text of all rows, without spaces at their ends."""
        return ["".join(row).rstrip() for row in self._rows]

    @property
    def lines(self) -> list[str]:
        """The text of the rows that are not empty."""
        return [*filter(None, self.rows)]

    def write(self, text: str) -> None:
        """Show a text."""
        for match in _CODES.finditer(text):
            self._take(match[0])

    def resize(self, width: int) -> None:
        """Change the width: rewrap each line, and keep the cursor at its character."""
        lines: list[list[str]] = [[]]
        place = (0, 0)
        for number, row in enumerate(self._rows):
            if number == self._row:
                place = (len(lines) - 1, len(lines[-1]) + self._column)
            lines[-1] += row
            if not self._is_wrapped[number]:
                lines.append([])
        self.width, self._rows, self._is_wrapped = width, [], []
        for number, line in enumerate(lines[:-1]):
            parts = [line[at : at + width] for at in range(0, len(line), width)] or [[]]
            if number == place[0]:
                self._row = len(self._rows) + min(place[1] // width, len(parts) - 1)
                self._column = min(place[1] - (self._row - len(self._rows)) * width, width - 1)
            self._rows += parts
            self._is_wrapped += [True] * (len(parts) - 1) + [False]

    def _take(self, code: str) -> None:
        is_escape = code.startswith("\x1b")
        count = int(re.sub("[^0-9]", "", code) or 1) if is_escape else 0
        match f"^{code[-1]}" if is_escape else code:
            case "\n":
                self._down()
                self._column = 0
            case "\r":
                self._column = 0
            case "^A":
                self._row = max(self._row - count, 0)
            case "^C":
                self._column = min(self._column + count, self.width - 1)
            case "^D":
                self._column = max(self._column - count, 0)
            case "^K":
                self._rows[self._row], self._is_wrapped[self._row] = [], False
            case "^J":
                self._rows[self._row] = self._rows[self._row][: self._column]
                del self._rows[self._row + 1 :], self._is_wrapped[self._row + 1 :]
                self._is_wrapped[self._row] = False
            case "^h" | "^l":
                self._wraps = self._wraps if "?7" not in code else code[-1] == "h"
            case "^m":
                pass
            case sign:
                self._put(sign)

    def _put(self, sign: str) -> None:
        if self._column == self.width and self._wraps:
            self._is_wrapped[self._row] = True
            self._down()
            self._column = 0
        column = min(self._column, self.width - 1)
        row = self._rows[self._row]
        row += [" "] * (column - len(row))
        row[column : column + 1] = [sign]
        self._column = column + 1

    def _down(self) -> None:
        self._row += 1
        if self._row == len(self._rows):
            self._rows.append([])
            self._is_wrapped.append(False)


def screen(written: str, width: int) -> list[str]:
    """Return the lines of an endless screen, without spaces at their ends and empty lines at the end.

    written: uses only the escape sequences of the program: colors, links, and rich's cursor movements.
    """
    terminal = ReflowingTerminal(width)
    terminal.write(_LINKS.sub("", written))
    return "\n".join(terminal.rows).rstrip("\n").split("\n")


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
    line = [sys.executable, "-W", "error", "-c", MAINS[program], *arguments]
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

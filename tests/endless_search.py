"""A pattern search that backtracks for ever in its own process, and a check which such processes are left."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

PATTERN = r"(?=a)(a+)+$"
"""ripgrep leaves a pattern that looks ahead to Python, which tries this one in 2**50 ways on the file."""
PATIENCE = 120
"""The longest that a process is waited for, so that one that stays is a failure [s]."""
_POLL = 0.01


@dataclass(frozen=True)
class Burning:
    """A file on which a search for PATTERN never ends."""

    name: str
    """It is on the command line of each process that searches the file."""

    def processes(self) -> list[int]:
        """Return the ids of the processes that search the file, or are about to."""
        return [pid for pid, _ in _command_lines(self.name)]

    def searching(self) -> list[int]:
        """Return the ids of those that have limited themselves and become the search in Python."""
        return [
            pid for pid, words in _command_lines(self.name) if b"linescan.py" in words and b"limited.py" not in words
        ]

    def wait_for_search(self) -> None:
        """Wait until a process searches the file."""
        _wait(self.searching, "no process ever searched")

    def wait_for_end(self) -> None:
        """Wait until no process searches the file any more."""
        _wait(lambda: not self.processes(), "a process is left")


@contextmanager
def burning(folder: Path) -> Iterator[Burning]:
    """Write the file into a folder; kill what still searches it at the end."""
    one = Burning(f"{uuid4().hex}.md")
    (folder / one.name).write_text("a" * 50 + "!\n")
    try:
        yield one
    finally:
        for pid in one.processes():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _command_lines(word: str) -> Iterator[tuple[int, bytes]]:
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal() and int(folder.name) != os.getpid():
            with suppress(OSError):
                words = (folder / "cmdline").read_bytes()
                if word.encode() in words:
                    yield int(folder.name), words


def _wait(condition: Callable[[], object], failure: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, failure
        time.sleep(_POLL)

"""A pattern search that never ends, in its own process, and a check for processes that are left."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

PATTERN = r"(?=a)(a+)+$"
"""ripgrep does not support look-ahead, so Python searches with this pattern, in 2**50 attempts on the file."""
PATIENCE = 120
"""Timeout for a process to start or end [s]."""
_POLL = 0.01


@dataclass(frozen=True)
class Burning:
    """A file on which a search for PATTERN never ends."""

    name: str
    """The file's name, which is on the command line of each process that searches it."""

    def processes(self) -> list[int]:
        """Return the ids of the processes that search the file, or are about to."""
        return [pid for pid, _ in _command_lines(self.name)]

    def searching(self) -> list[int]:
        """Return the ids of the processes that have limited themselves and run the Python search."""
        return [pid for pid, words in _command_lines(self.name) if b"scan" in words and b"limit" not in words]

    def wait_for_search(self) -> None:
        """Wait until a process searches the file."""
        _wait(self.searching, "no process ever searched")

    def wait_for_end(self) -> None:
        """Wait until no process searches the file any more."""
        _wait(lambda: not self.processes(), "a process is left")


@contextmanager
def burning(folder: Path) -> Iterator[Burning]:
    """Create the file in a folder; at the end kill all processes that still search it."""
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

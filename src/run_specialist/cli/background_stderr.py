"""Standard error of a server, written by a thread, so that a stalled reader does not block the server."""

import logging
import os
import threading
from contextlib import suppress
from queue import Full, Queue
from types import TracebackType
from typing import Self

from run_specialist.cli.console import labelled

MOST_LINES = 256
"""Size of the queue; further lines are dropped."""
LONGEST_LINE = 16_384
"""Longer lines, such as tracebacks, are cut [characters]."""
PATIENCE = 0.5
"""Timeout for pending lines at exit [s]."""
_WARNINGS = "py.warnings"


class BackgroundStderr(logging.Handler):
    """Writes lines to standard error in order; drops lines if the queue is full.

    As a context manager, it also receives warnings, and log records without a handler.
    """

    def __init__(self, descriptor: int = 2, *, most: int = MOST_LINES, patience: float = PATIENCE) -> None:
        """Create a writer for a file descriptor.

        most: size of the queue [lines].
        patience: timeout of `__exit__` for pending lines [s].
        """
        super().__init__(logging.WARNING)
        self._descriptor = descriptor
        self._lines: Queue[str | None] = Queue(most)
        self._dropped = 0
        self._patience = patience
        self._thread = threading.Thread(target=self._work, name="stderr", daemon=True)
        self._last_resort: logging.Handler | None = None

    def say(self, text: str) -> None:
        """Write a message of the program."""
        self._put(labelled(text))

    def emit(self, record: logging.LogRecord) -> None:
        """Write a log record."""
        self._put(self.format(record))

    def __enter__(self) -> Self:
        """Start the thread, and receive log records and warnings."""
        self._thread.start()
        self._last_resort, logging.lastResort = logging.lastResort, self
        logging.captureWarnings(capture=True)
        logging.getLogger(_WARNINGS).addHandler(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, at: TracebackType | None) -> None:
        """Wait for pending lines, up to the timeout."""
        logging.getLogger(_WARNINGS).removeHandler(self)
        logging.captureWarnings(capture=False)
        logging.lastResort = self._last_resort
        with suppress(Full):
            self._lines.put(None, timeout=self._patience)
            self._thread.join(self._patience)

    def _put(self, line: str) -> None:
        try:
            self._lines.put_nowait(line[:LONGEST_LINE])
        except Full:
            self._dropped += 1

    def _work(self) -> None:
        while (line := self._lines.get()) is not None:
            dropped, self._dropped = self._dropped, 0
            if dropped:
                self._write(labelled(f"{dropped} lines were dropped because standard error was not read"))
            self._write(line)

    def _write(self, line: str) -> None:
        # Not through sys.stderr: a blocked thread that holds its lock would make the interpreter abort at exit.
        data = (line + "\n").encode("utf-8", "backslashreplace")
        with suppress(OSError):
            while data:
                data = data[os.write(self._descriptor, data) :]

"""Standard error for a server: written by a thread, so that a reader that stopped reading holds up nothing."""

import logging
import os
import threading
from contextlib import suppress
from queue import Full, Queue
from types import TracebackType
from typing import Self

from run_specialist.cli.console import labelled

MOST_LINES = 256
"""Lines that wait to be written; further ones are dropped."""
LONGEST_LINE = 16_384
"""A longer text, such as a traceback, is cut [characters]."""
PATIENCE = 0.5
"""How long the end waits for lines that are not written yet [s]."""
_WARNINGS = "py.warnings"


class BackgroundStderr(logging.Handler):
    """Writes lines to standard error in their order, and drops what nobody reads.

    While it is entered, log records and warnings that nobody else handles go the same way.
    """

    def __init__(self, descriptor: int = 2, *, most: int = MOST_LINES, patience: float = PATIENCE) -> None:
        """Take where to write.

        most: lines that wait; patience: what `__exit__` waits for them [s].
        """
        super().__init__(logging.WARNING)
        self._descriptor = descriptor
        self._lines: Queue[str | None] = Queue(most)
        self._dropped = 0
        self._patience = patience
        self._thread = threading.Thread(target=self._work, name="stderr", daemon=True)
        self._last_resort: logging.Handler | None = None

    def say(self, text: str) -> None:
        """Write a line of the program's own."""
        self._put(labelled(text))

    def emit(self, record: logging.LogRecord) -> None:
        """Write a log record."""
        self._put(self.format(record))

    def __enter__(self) -> Self:
        """Begin to write."""
        self._thread.start()
        self._last_resort, logging.lastResort = logging.lastResort, self
        logging.captureWarnings(capture=True)
        logging.getLogger(_WARNINGS).addHandler(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, at: TracebackType | None) -> None:
        """Wait a moment until everything is written."""
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
                self._write(labelled(f"{dropped} lines were dropped, as nobody read them"))
            self._write(line)

    def _write(self, line: str) -> None:
        # Not through sys.stderr: its lock, held by a thread that waits, would make the interpreter's end fail.
        data = (line + "\n").encode("utf-8", "backslashreplace")
        with suppress(OSError):
            while data:
                data = data[os.write(self._descriptor, data) :]

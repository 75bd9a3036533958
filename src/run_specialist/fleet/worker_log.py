"""What an operator sees of a worker: log lines, and a health file."""

import json
import os
import socket
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from run_specialist.errors import UsageError

Level = Literal["info", "warning", "error"]


Log = Callable[..., None]
"""Receives the lines for the operator, as `LineLog` does."""


class LineLog:
    """Writes lines with time, level, host, process and item."""

    def __init__(self, write: Callable[[str], None]) -> None:
        """Set the output.

        write: called with each line.
        """
        self._write = write
        self._from = f"host={socket.gethostname()} pid={os.getpid()}"

    def __call__(self, text: str, *, level: Level = "info", item: str | None = None) -> None:
        """Write a line; line breaks in the text become spaces.

        item: the run id of the item that it is about.
        """
        now = datetime.now(UTC).isoformat(timespec="milliseconds").removesuffix("+00:00")
        of = "" if item is None else f" item={item}"
        self._write(f"{now}Z {level} {self._from}{of} {' '.join(text.split())}")


class HealthFile:
    """A JSON file with the state of a worker, which is replaced while its event loop runs."""

    INTERVAL = 5.0
    """Minimum time between two changes, unless the state changes [s]."""

    def __init__(self, path: Path) -> None:
        """Set the file; raises UsageError if it cannot be written."""
        self._path = path
        self._written, self._state = 0.0, ""
        self._common = {"host": socket.gethostname(), "pid": os.getpid(), "started_at": time.time()}
        if problem := self.write("starting", {}):
            raise UsageError(problem)

    def write(self, state: str, values: Mapping[str, Any]) -> str:
        """Write the state if it is due; return why that failed, in one line, or an empty text.

        state: `working`, `waiting for the database`, `stopping` or `stopped`.
        values: more values for the file.
        """
        now = time.monotonic()
        if state == self._state and now - self._written < self.INTERVAL:
            return ""
        self._written, self._state = now, state
        temporary = self._path.with_name(f".{self._path.name}.{os.getpid()}.tmp")
        try:
            temporary.write_text(json.dumps({**self._common, "at": time.time(), "state": state, **values}) + "\n")
            temporary.replace(self._path)
        except OSError as error:
            return f"health file {self._path}: {error.strerror or error}"
        return ""

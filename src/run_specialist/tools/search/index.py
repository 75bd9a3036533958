"""Ranked search over all visible text files, in memory: by passages, or by files where they are many."""

import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain

from run_specialist.errors import ToolError
from run_specialist.tools.sandbox.linescan import lines_in
from run_specialist.tools.sandbox.listing import files
from run_specialist.tools.sandbox.sandbox import Sandbox
from run_specialist.tools.sandbox.text import whole_text
from run_specialist.tools.search.file_index import FileIndex
from run_specialist.tools.search.passage_index import Hits, PassageIndex
from run_specialist.tools.search.passages import is_prose, passages

LARGEST_FILE = 2_000_000
"""Larger files are left out of the index [bytes]."""
LARGEST_INDEX = 100_000_000
"""No more than this is indexed [bytes]."""
LARGEST_CUT = 8_000_000
"""Of no more than this all passages are kept [characters]; above, a first search would take too long."""
LONGEST_BUILD = 20.0
"""A root too large to be read in this time is searched as far as it was read [s].

To cut what may be cut takes a second or two more.
"""
_EACH = 400
"""What a file costs by itself, whatever its size [characters]."""


class Index:
    """Built once, at the first search; threads may share it."""

    def __init__(self, sandbox: Sandbox) -> None:
        """Remember where to look; nothing is read yet."""
        self._sandbox = sandbox
        self._lock = threading.Lock()
        self._built: PassageIndex | FileIndex | None = None
        self.skipped: list[str] = []
        """Text files that are too large, or came after the index was full."""
        self.files = 0
        """How many files were read."""
        self.complete = True
        """False when there was no time to read all of them."""

    def search(self, query: str, limit: int) -> Hits:
        """Rank the passages that hold any word of the query, best first, at most a few of each file."""
        with self._lock:
            self._built = self._built or self._build()
            return self._built.search(query, limit)

    def _build(self) -> PassageIndex | FileIndex:
        texts, held, size = self._texts(), [], 0
        for path, text in texts:
            held.append((path, text))
            size += len(text) + _EACH
            if size > LARGEST_CUT:
                return FileIndex(self._sandbox, chain(held, texts), LARGEST_FILE)
        return PassageIndex((path, passages(lines_in(text), prose=is_prose(path))) for path, text in held)

    def _texts(self) -> Iterator[tuple[str, str]]:
        room, until = LARGEST_INDEX, time.monotonic() + LONGEST_BUILD

        # Not whether anybody waits for this search: the next one of the run needs the same index.
        def check() -> None:
            if time.monotonic() > until:
                raise _TimeIsUp

        try:
            for path in files(self._sandbox, check=check):
                check()
                with suppress(ToolError):
                    read = whole_text(self._sandbox, path, min(LARGEST_FILE, room))
                    if read is None:
                        self.skipped.append(path)
                        continue
                    text, size = read
                    room -= size
                    self.files += 1
                    yield path, text
        except _TimeIsUp:
            self.complete = False


class _TimeIsUp(Exception):
    """No more files are read."""

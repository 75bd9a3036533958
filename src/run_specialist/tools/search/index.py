"""In-memory ranked search over all visible text files: by passage, or by file if there are many."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import chain

from run_specialist.errors import ToolError
from run_specialist.tools.sandbox.linescan import lines_in
from run_specialist.tools.sandbox.listing import files
from run_specialist.tools.sandbox.sandbox import Sandbox
from run_specialist.tools.sandbox.text import read_text
from run_specialist.tools.search.file_index import FileIndex
from run_specialist.tools.search.passage_index import Hits, PassageIndex
from run_specialist.tools.search.passages import is_prose, passages

LARGEST_FILE = 2_000_000
"""Maximum size of an indexed file; larger ones are skipped [bytes]."""
LARGEST_INDEX = 100_000_000
"""Maximum total size of the indexed files [bytes]."""
LARGEST_CUT = 8_000_000
"""Maximum total length for a passage index [characters]; above it, the first search would take too long."""
LONGEST_BUILD = 20.0
"""Timeout for reading the files, after which those read so far are searched [s].

Splitting them into passages takes another second or two.
"""
_COST_PER_FILE = 400
"""Fixed cost of a file, added to its length [characters]."""


class SearchIndex:
    """Index that is built at the first search, and again once files were changed; thread-safe."""

    def __init__(self, sandbox: Sandbox, changes: Callable[[], int] | None = None) -> None:
        """Create an index without reading any file.

        changes: returns how many changes of files were made so far; None = no file is changed.
        """
        self._sandbox = sandbox
        self._changes = changes
        self._built_after = 0
        self._lock = threading.Lock()
        self._built: PassageIndex | FileIndex | None = None
        self.skipped: list[str] = []
        """Text files that are too large, or did not fit in the index."""
        self.files = 0
        """Number of indexed files."""
        self.complete = True
        """Whether all files were read before the timeout."""

    def search(self, query: str, limit: int) -> Hits:
        """Return the best passages that contain any word of the query, best first, at most a few per file."""
        with self._lock:
            if self._changes is not None and self._built_after != (changes := self._changes()):
                self._built, self._built_after = None, changes
                self.files, self.complete = 0, True
                self.skipped.clear()
            self._built = self._built or self._build()
            return self._built.search(query, limit)

    def _build(self) -> PassageIndex | FileIndex:
        texts, read, size = self._texts(), [], 0
        for path, text in texts:
            read.append((path, text))
            size += len(text) + _COST_PER_FILE
            if size > LARGEST_CUT:
                return FileIndex(self._sandbox, chain(read, texts), LARGEST_FILE)
        return PassageIndex((path, passages(lines_in(text), prose=is_prose(path))) for path, text in read)

    def _texts(self) -> Iterator[tuple[str, str]]:
        remaining, deadline = LARGEST_INDEX, time.monotonic() + LONGEST_BUILD

        # A cancelled search still completes the index, since the next search of the run needs it.
        def check() -> None:
            if time.monotonic() > deadline:
                raise _BuildTimeout

        try:
            for path in files(self._sandbox, check=check):
                check()
                with suppress(ToolError):
                    read = read_text(self._sandbox, path, min(LARGEST_FILE, remaining))
                    if read is None:
                        self.skipped.append(path)
                        continue
                    text, size = read
                    remaining -= size
                    self.files += 1
                    yield path, text
        except _BuildTimeout:
            self.complete = False


class _BuildTimeout(Exception):
    """The timeout for reading the files has expired."""

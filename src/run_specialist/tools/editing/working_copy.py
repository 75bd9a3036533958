"""The files that a run may change: those that it has read, and, in a dry run, its changes."""

import os
import threading
from collections.abc import Callable
from pathlib import Path

from run_specialist.safe_files.safe_write import digest_of, read_content
from run_specialist.tools.editing.text_edit import MOST
from run_specialist.tools.editing.unified_diff import diff_of


class Patch:
    """The changes of a dry run and its child runs, kept in memory; thread-safe."""

    def __init__(self, *, is_closed: bool = False) -> None:
        """Start without changes.

        is_closed: whether to refuse changes, because the run continues a dry run whose changes were not kept.
        """
        self.is_closed = is_closed
        self._lock = threading.Lock()
        self._files: dict[tuple[Path, str], tuple[bytes | None, bytes]] = {}
        """Old and new content, by root and path."""

    def content(self, root: Path, relative: str) -> bytes | None:
        """Return the content of a changed file; None if it is not changed."""
        with self._lock:
            found = self._files.get((root, relative))
        return None if found is None else found[1]

    def change(self, root: Path, relative: str, before: bytes | None, after: bytes) -> None:
        """Add a change of a file.

        before: the content on the disk; None if there is no such file.
        """
        with self._lock:
            first, _ = self._files.get((root, relative), (before, b""))
            self._files[root, relative] = first, after

    def text(self) -> str:
        """Return all changes as one patch, which `git apply` accepts; empty if there are none."""
        with self._lock:
            files = sorted(self._files.items())
        return "".join(
            diff_of(relative, None if before is None else before.decode(), after.decode()).text
            for (_, relative), (before, after) in files
        )


class WorkingCopy:
    """The files of one run, as it has read and changed them; thread-safe."""

    def __init__(self, root: Path, patch: Patch | None = None, closed: Callable[[], tuple[Path, ...]] = tuple) -> None:
        """Begin with nothing read.

        patch: takes the changes of a dry run; None = they are made on the disk.
        closed: returns real paths of files and folders that may not be changed in any case.
        """
        self.root = Path(os.path.realpath(root))
        self.patch = patch
        self.closed = closed
        self.changes = 0
        """Number of changes made; a search index built earlier is outdated."""
        self._known: dict[str, str] = {}

    def content(self, relative: str) -> bytes | None:
        """Return the content of a file as the run sees it; None if there is no such file.

        Raises OSError, also for a file that is too large to be changed.
        """
        changed = None if self.patch is None else self.patch.content(self.root, relative)
        if changed is not None:
            return changed
        return read_content(self.root, relative, MOST)

    def readable(self, relative: str) -> bytes | None:
        """Return the content of a file for display; None if it cannot be read or changed."""
        try:
            return self.content(relative)
        except OSError:
            return None

    def keeps(self, relative: str) -> bool:
        """Return whether a dry run has changed, or created, a file."""
        return self.patch is not None and self.patch.content(self.root, relative) is not None

    def knows(self, relative: str, data: bytes) -> None:
        """Record that the run has read or written a file with this content."""
        self._known[relative] = digest_of(data)

    def known(self, relative: str) -> str | None:
        """Return the digest of a file as the run last read or wrote it; None if it did not."""
        return self._known.get(relative)

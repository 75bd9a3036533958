"""Ignore rules from the .gitignore files of a folder tree."""

import errno
import os
import threading
from dataclasses import dataclass
from typing import Self

from run_specialist.safe_files.safe_open import Folder
from run_specialist.tools.sandbox.ignore import IgnoreFile, ignore_file

LARGEST = 4_000_000
"""Maximum size of a .gitignore [bytes]; with a larger one, the folder cannot be read."""
_MAX_CACHED = 8_000_000
"""Maximum total size of the files cached in compiled form, which takes about ten times as much memory [bytes]."""
_COST_PER_FILE = 2_000
"""Fixed cost per cached file, added to its size [bytes]."""


@dataclass(frozen=True)
class IgnoreRules:
    """The .gitignore files from the root down to one folder; the nearest one with a matching pattern wins."""

    files: tuple[tuple[str, IgnoreFile], ...] = ()
    """Files with their folders: relative to the root and ending in `/`, or empty for the root."""

    def within(self, folder: Folder, relative: str) -> Self:
        """Return the rules that apply inside a folder.

        relative: path of the same folder relative to the root; empty for the root itself.
        Raises OSError if its .gitignore cannot be read or is too large, because its rules are then unknown.
        """
        base = f"{relative}/" if relative else ""
        try:
            content = _read(folder)
            return type(self)((*self.files, (base, _CACHE.get(content)))) if content else self
        except OSError as error:
            raise OSError(error.errno, f"{base}.gitignore: {error.strerror}") from error

    def hide(self, relative: str, *, is_folder: bool) -> bool:
        """Return whether an entry is ignored, provided that no folder above it is."""
        for base, file in reversed(self.files):
            hides = file.hides(relative[len(base) :], is_folder=is_folder)
            if hides is not None:
                return hides
        return False


class _Cache:
    """Thread-safe cache of compiled .gitignore files by content, shared by all runs of the process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._files: dict[bytes, IgnoreFile] = {}
        self._size = 0

    def get(self, content: bytes) -> IgnoreFile:
        """Return the compiled patterns of a .gitignore; raises OSError for too many."""
        found = self._files.get(content)
        if found is None:
            with self._lock:
                found = self._files.get(content) or self._compile(content)
        return found

    def _compile(self, content: bytes) -> IgnoreFile:
        # Git skips a byte order mark, and treats names as bytes.
        lines = os.fsdecode(content.removeprefix(b"\xef\xbb\xbf")).splitlines()
        found = self._files[content] = ignore_file(lines)
        self._size += len(content) + _COST_PER_FILE
        while self._size > _MAX_CACHED and len(self._files) > 1:
            oldest = next(iter(self._files))
            del self._files[oldest]
            self._size -= len(oldest) + _COST_PER_FILE
        return found


_CACHE = _Cache()


def _read(folder: Folder) -> bytes:
    """Return the content of a folder's .gitignore; empty if there is none that git would read."""
    try:
        # It may be a FIFO, or a symlink out of the tree; git does not follow symlinks here either.
        with folder.file(".gitignore") as file:
            content = file.read(LARGEST + 1)
    except FileNotFoundError:
        return b""
    except OSError as error:
        if error.errno == errno.EINVAL:
            return b""
        raise
    if len(content) > LARGEST:
        raise OSError(errno.EFBIG, f"larger than {LARGEST // 1_000_000} MB")
    return content

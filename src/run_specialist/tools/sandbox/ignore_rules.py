"""What the .gitignore files of a tree hide."""

import errno
import os
import threading
from dataclasses import dataclass
from typing import Self

from run_specialist.safe_open import Folder
from run_specialist.tools.sandbox.ignore import IgnoreFile, ignore_file

LARGEST = 4_000_000
"""A larger .gitignore is not read, and its folder stays closed [bytes]."""
_MOST_KEPT = 8_000_000
"""How much of them is kept compiled, which takes some ten times as much memory [bytes]."""
_EACH = 2_000
"""What a small one is counted for [bytes]."""


@dataclass(frozen=True)
class IgnoreRules:
    """The .gitignore files from the root down to one folder; the nearest that says anything wins."""

    files: tuple[tuple[str, IgnoreFile], ...] = ()
    """Each after the folder it lies in, relative to the root and ending in `/`; empty for the root."""

    def within(self, folder: Folder, relative: str) -> Self:
        """Return the rules that hold inside a folder.

        relative: the same folder as seen from the root; empty for the root itself.
        Raises OSError when there is a .gitignore that cannot be read or is too large: nobody knows what it hides.
        """
        base = f"{relative}/" if relative else ""
        try:
            content = _read(folder)
            return type(self)((*self.files, (base, _COMPILED.of(content)))) if content else self
        except OSError as error:
            raise OSError(error.errno, f"{base}.gitignore: {error.strerror}") from error

    def hide(self, relative: str, *, is_folder: bool) -> bool:
        """Tell whether the entry is ignored, given that no folder above it is."""
        for base, file in reversed(self.files):
            hides = file.hides(relative[len(base) :], is_folder=is_folder)
            if hides is not None:
                return hides
        return False


class _Compiled:
    """Compiled .gitignore files by their content, for all runs of the process; threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._files: dict[bytes, IgnoreFile] = {}
        self._size = 0

    def of(self, content: bytes) -> IgnoreFile:
        """Return the patterns of a .gitignore; raises OSError for too many."""
        found = self._files.get(content)
        if found is None:
            with self._lock:
                found = self._files.get(content) or self._added(content)
        return found

    def _added(self, content: bytes) -> IgnoreFile:
        # Git passes over the mark that some editors begin a file with, and takes names as bytes.
        lines = os.fsdecode(content.removeprefix(b"\xef\xbb\xbf")).splitlines()
        found = self._files[content] = ignore_file(lines)
        self._size += len(content) + _EACH
        while self._size > _MOST_KEPT and len(self._files) > 1:
            oldest = next(iter(self._files))
            del self._files[oldest]
            self._size -= len(oldest) + _EACH
        return found


_COMPILED = _Compiled()


def _read(folder: Folder) -> bytes:
    """Return the content of a folder's .gitignore; empty when there is none that git would read either."""
    try:
        # It may be a FIFO, or a link out of the tree; git follows no link here either.
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

"""Locks on files that the system lets go when their process dies, however it dies."""

import os
import sys
from pathlib import Path

if sys.platform == "win32":  # written by the book, never tried
    import msvcrt

    _BEHIND = 1 << 30
    """The byte that is locked; behind the words, which others are to read."""

    def _lock(descriptor: int, *, wait: bool) -> None:
        os.lseek(descriptor, _BEHIND, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1)
        os.lseek(descriptor, 0, os.SEEK_SET)

else:
    import fcntl

    # Not `lockf`: its locks are lost as soon as the process closes any descriptor of that file.
    def _lock(descriptor: int, *, wait: bool) -> None:
        # Who only asks shares the lock, so that two who ask do not take each other for the owner.
        fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_SH | fcntl.LOCK_NB)


def make_locked(file: Path, words: str) -> int:
    """Make a file that only its owner can read, lock it, write into it; return the descriptor, which holds the lock.

    It is empty until it is locked: who finds it empty and free is not to take its process for dead.
    Raises OSError.
    """
    descriptor = os.open(file, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
    try:
        _lock(descriptor, wait=True)
        os.write(descriptor, words.encode())
    except OSError:
        os.close(descriptor)
        file.unlink(missing_ok=True)
        raise
    return descriptor


def is_free(file: Path) -> bool:
    """Say whether nobody holds the lock of a file, or there is no such file; false where it may not be asked."""
    try:
        descriptor = os.open(file, os.O_RDWR if sys.platform == "win32" else os.O_RDONLY)
    except OSError as error:
        return isinstance(error, (FileNotFoundError, NotADirectoryError))
    try:
        _lock(descriptor, wait=False)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True

"""File locks that the operating system releases when their process ends, even if it is killed."""

import os
import sys
from pathlib import Path

if sys.platform == "win32":  # written from the documentation, never tested
    import msvcrt

    _LOCKED_BYTE = 1 << 30
    """Offset of the locked byte: past the text, which other processes read."""

    def _lock(descriptor: int, *, wait: bool) -> None:
        os.lseek(descriptor, _LOCKED_BYTE, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1)
        os.lseek(descriptor, 0, os.SEEK_SET)

else:
    import fcntl

    # Not `lockf`: its locks are released when the process closes any descriptor of the file.
    def _lock(descriptor: int, *, wait: bool) -> None:
        # A check uses a shared lock, so that two simultaneous checks do not mistake each other for the owner.
        fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_SH | fcntl.LOCK_NB)


def make_locked(file: Path, text: str) -> int:
    """Create a file with mode 0600, lock it, write `text`; return the descriptor, which holds the lock.

    The file is empty until it is locked, so an empty file without a lock does not mean that its process is dead.
    Raises OSError.
    """
    descriptor = os.open(file, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
    try:
        _lock(descriptor, wait=True)
        os.write(descriptor, text.encode())
    except OSError:
        os.close(descriptor)
        file.unlink(missing_ok=True)
        raise
    return descriptor


def is_free(file: Path) -> bool:
    """Return whether a file is unlocked or does not exist; False if permissions forbid the check."""
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

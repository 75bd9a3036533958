"""The temporary file to which rows are appended as items end; at the end it replaces the answer file."""

import errno
import os
import stat
import sys
from contextlib import suppress
from pathlib import Path

from run_specialist.errors import UsageError

_FLAGS = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)

if sys.platform == "win32":

    def _lock(descriptor: int) -> None:
        """Do nothing: there, another process cannot replace an open file."""
else:
    import fcntl

    def _lock(descriptor: int) -> None:
        """Raise BlockingIOError if another process, or another open file of this one, has the lock."""
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS):
                raise


class AnswerPart:
    """An append-only file of rows, locked while it is open; a killed process leaves at most its last row incomplete."""

    def __init__(self, path: Path, of: Path) -> None:
        """Open or create the file and keep its rows; raises OSError, or UsageError if another process writes it.

        of: the file that it will replace, for the error.
        """
        self.path = path
        descriptor = None
        try:
            while descriptor is None:
                descriptor = _open_locked(path)
        except BlockingIOError:
            raise UsageError(
                f"{of} is being written by another process; wait for its end, or choose another file"
            ) from None
        self._descriptor = descriptor
        self.size = os.fstat(descriptor).st_size
        """Size [bytes]."""

    def append(self, line: bytes) -> None:
        """Append a whole line or nothing; raises OSError."""
        rest = memoryview(line)
        try:
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
        except OSError:
            with suppress(OSError):
                os.ftruncate(self._descriptor, self.size)
            raise
        self.size += len(line)

    def clear(self) -> None:
        """Remove all rows."""
        os.ftruncate(self._descriptor, 0)
        self.size = 0

    def become(self, target: Path, mode: int | None) -> None:
        """Replace a file by this one, and close this one; raises OSError.

        mode: permissions of the result; None to keep those of a new file.
        """
        if mode is not None:
            self.path.chmod(mode)
        os.fsync(self._descriptor)
        self.path.replace(target)
        os.close(self._descriptor)

    def remove(self) -> None:
        """Delete and close the file; raises OSError."""
        self.path.unlink(missing_ok=True)
        os.close(self._descriptor)

    def close(self) -> None:
        """Close the file and keep its rows."""
        os.close(self._descriptor)


def _open_locked(path: Path) -> int | None:
    """Open or create a file and lock it; None if another process has just renamed or deleted it.

    Raises OSError; BlockingIOError if another process has the lock.
    """
    descriptor = os.open(path, _FLAGS, 0o666)
    try:
        _lock(descriptor)
        info = os.fstat(descriptor)
        _require_regular(info, path)
        with suppress(FileNotFoundError):
            if os.path.samestat(info, path.lstat()):
                return descriptor
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None


def _require_regular(info: os.stat_result, path: Path) -> None:
    if not stat.S_ISREG(info.st_mode):
        raise OSError(errno.EINVAL, f"{path} is not a regular file")

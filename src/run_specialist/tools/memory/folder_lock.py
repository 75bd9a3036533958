"""A lock on a folder, for changes that other runs must not make at the same time."""

import errno
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from run_specialist.errors import ToolError
from run_specialist.safe_files.safe_open import Folder

LONGEST = 10.0
"""Maximum time to wait for another run [s]."""
_PAUSE = 0.005
_NOT_LOCKABLE = (errno.EBADF, errno.ENOLCK, errno.EOPNOTSUPP, errno.EINVAL)
_in_process = threading.Lock()
"""Lock within this process, for file systems without locks; runs of other processes are not excluded there."""

if sys.platform == "win32":

    def _try_lock(_descriptor: int) -> None:
        """Do nothing: folders cannot be opened there."""

else:
    import fcntl

    def _try_lock(descriptor: int) -> None:
        """Lock; raises BlockingIOError if another process or thread has the lock, and OSError."""
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


@contextmanager
def locked(folder: Folder, seconds: float = LONGEST) -> Iterator[None]:
    """Hold the lock of a folder, which the operating system releases when the process ends.

    seconds: maximum time to wait.
    Raises ToolError if another run holds it for longer.
    """
    end = time.monotonic() + seconds
    if not _in_process.acquire(timeout=seconds):
        raise ToolError(_in_use())
    try:
        descriptor = _readable(folder)
        try:
            _wait(descriptor, end)
            yield
        finally:
            if descriptor is not None:
                os.close(descriptor)
    finally:
        _in_process.release()


def _readable(folder: Folder) -> int | None:
    """Return a descriptor that can be locked; None where folders cannot be opened."""
    if folder.descriptor is None:
        return None
    return os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder.descriptor)


def _wait(descriptor: int | None, end: float) -> None:
    """Lock a folder until its descriptor is closed; raises ToolError at the time `end`."""
    while descriptor is not None:
        try:
            _try_lock(descriptor)
        except BlockingIOError:
            if time.monotonic() >= end:
                raise ToolError(_in_use()) from None
            time.sleep(_PAUSE)
        except OSError as error:
            # Some network file systems lock only files that are open for writing.
            if error.errno not in _NOT_LOCKABLE:
                raise
            return
        else:
            return


def _in_use() -> str:
    return "another run is changing these notes; try again"

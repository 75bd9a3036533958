"""Detect whether the process that writes a run is alive.

This relies on neither clocks nor process ids, so it works across containers that share a folder or a server. For an
SQLite store the lock is on a small file in the folder `<store>.owners`; for PostgreSQL it is an advisory lock.
"""

import fcntl
import os
from contextlib import suppress
from pathlib import Path

from run_specialist.errors import StoreUnusable, errors_as
from run_specialist.store.base import Owner, digest, process_description
from run_specialist.store.location import ELSEWHERE, file_of

GRACE = 2.0
"""Delay before a free lock on a server is checked again; a live process reconnects within this time [s]."""
UNKNOWN = "another process"
"""Description of an owner that recorded none."""


def acquire(url: str) -> Owner:
    """Acquire an owner lock for this process in an existing store; on PostgreSQL this opens a second connection.

    Raises StoreUnusable.
    """
    path = file_of(url)
    if path is not None:
        return _FileOwner(path)
    from run_specialist.store.postgresql import ServerOwner  # noqa: PLC0415 - a database library

    return ServerOwner(url)


class _FileOwner(Owner):
    def __init__(self, store: Path) -> None:
        super().__init__()
        folder = _folder(store)
        self._file = _file(store, self.token)
        self._descriptor: int | None = None
        with errors_as(StoreUnusable, f"cannot create a lock file in {folder}", OSError, advice=ELSEWHERE):
            folder.mkdir(mode=0o700, exist_ok=True)
            self._descriptor = make_locked(self._file, process_description())
        for file in folder.glob("*.lock"):
            # Check the size first: a file that is empty and not locked is being created.
            with suppress(OSError):
                if file.stat().st_size and is_free(file):
                    file.unlink()

    def _release(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
            with suppress(OSError):
                self._file.unlink()


def is_alive(url: str, token: str) -> bool:
    """Return whether the process with this token still holds its lock; True if that cannot be determined.

    Raises StoreUnusable if the server cannot be queried.
    """
    store = file_of(url)
    if store is None:
        from run_specialist.store import postgresql  # noqa: PLC0415 - a database library

        return postgresql.is_alive(url, token)
    file = _file(store, token)
    if not is_free(file):
        return True
    # The file or its folder may belong to another user; if so, the next writer removes it.
    with suppress(OSError):
        file.unlink(missing_ok=True)
    return False


def describe(url: str, token: str) -> str:
    """Return a description of the process with this token: process id, host, start time.

    Raises StoreUnusable if the server cannot be queried.
    """
    store = file_of(url)
    if store is None:
        from run_specialist.store import postgresql  # noqa: PLC0415 - a database library

        return postgresql.describe(url, token) or UNKNOWN
    with suppress(OSError):
        return _file(store, token).read_text(errors="replace").strip() or UNKNOWN
    return UNKNOWN


def _folder(store: Path) -> Path:
    # Resolve symlinks, so that every path to a store has the same owners.
    real = store.resolve()
    return real.with_name(f"{real.name}.owners")


def _file(store: Path, token: str) -> Path:
    return _folder(store) / f"{digest(token).hex()[:32]}.lock"


def make_locked(file: Path, text: str) -> int:
    """Create a file with mode 0600, lock it, write `text`; return the descriptor, which holds the lock.

    The file is empty until it is locked, so an empty file without a lock does not mean that its process is dead.
    Raises OSError.
    """
    descriptor = os.open(file, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
    try:
        # Not `lockf`: its locks are released when the process closes any descriptor of the file.
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        os.write(descriptor, text.encode())
    except OSError:
        os.close(descriptor)
        file.unlink(missing_ok=True)
        raise
    return descriptor


def is_free(file: Path) -> bool:
    """Return whether a file is unlocked or does not exist; False if permissions forbid the check."""
    try:
        with file.open("rb", buffering=0) as opened:
            # Shared, so that two simultaneous checks do not mistake each other for the owner.
            fcntl.flock(opened.fileno(), fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        return isinstance(error, (FileNotFoundError, NotADirectoryError))
    return True

"""Detect whether the process that writes a run is alive: it holds a lock that is released when the process dies.

This relies on neither clocks nor process ids, so it works across containers that share a folder or a server. For an
SQLite store the lock is on a small file in the folder `<store>.owners`; for PostgreSQL it is an advisory lock.
"""

import os
from contextlib import suppress
from pathlib import Path

from run_specialist.errors import StoreUnusable
from run_specialist.store.location import ELSEWHERE, file_of
from run_specialist.store.locks import is_free, make_locked
from run_specialist.store.owner import Owner, digest, process_description

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
    from run_specialist.store.server_owner import ServerOwner  # noqa: PLC0415 - a database library

    return ServerOwner(url)


class _FileOwner(Owner):
    def __init__(self, store: Path) -> None:
        super().__init__()
        folder = _folder(store)
        self._file = _file(store, self.token)
        self._descriptor: int | None = None
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
            self._descriptor = make_locked(self._file, process_description())
        except OSError as error:
            raise StoreUnusable(f"cannot create a lock file in {folder}: {error.strerror}; {ELSEWHERE}") from error
        for file in folder.glob("*.lock"):
            # Check the size first: a file that is empty and not locked is being created.
            with suppress(OSError):
                if file.stat().st_size and is_free(file):
                    file.unlink()

    def renew(self) -> None:
        """Do nothing: the operating system keeps the lock until the process ends."""

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
        from run_specialist.store import server_owner  # noqa: PLC0415 - a database library

        return server_owner.is_alive(url, token)
    file = _file(store, token)
    if not is_free(file):
        return True
    # The file or its folder may belong to another user; if so, the next writer removes it.
    with suppress(OSError):
        file.unlink(missing_ok=True)
    return False


def may_reconnect(url: str) -> bool:
    """Return whether the owner of a free lock may reacquire it within `GRACE`, after a dropped connection."""
    return file_of(url) is None


def describe(url: str, token: str) -> str:
    """Return a description of the process with this token: process id, host, start time.

    Raises StoreUnusable if the server cannot be queried.
    """
    store = file_of(url)
    if store is None:
        from run_specialist.store import server_owner  # noqa: PLC0415 - a database library

        return server_owner.describe(url, token) or UNKNOWN
    try:
        return _file(store, token).read_text(errors="replace").strip() or UNKNOWN
    except OSError:
        return UNKNOWN


def _folder(store: Path) -> Path:
    # Resolve symlinks, so that every path to a store has the same owners.
    real = store.resolve()
    return real.with_name(f"{real.name}.owners")


def _file(store: Path, token: str) -> Path:
    return _folder(store) / f"{digest(token).hex()[:32]}.lock"

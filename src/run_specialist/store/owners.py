"""Whether the process that writes a run still lives: it holds a lock that the system lets go when it dies.

Nothing depends on a clock or on process ids, so this holds between containers that share a folder or a server. For an
SQLite file the lock is on a small file in the folder `<store>.owners`, for PostgreSQL it is one of the server's own.
"""

import os
from contextlib import suppress
from pathlib import Path

from run_specialist.errors import StoreUnusable
from run_specialist.store.location import ELSEWHERE, file_of
from run_specialist.store.locks import is_free, make_locked
from run_specialist.store.owner import Owner, digest, words

GRACE = 2.0
"""A lock on a server counts as free only if it is free again after this: a session that is cut is renewed [s]."""
UNKNOWN = "another process"
"""What an owner is called that left no words."""


def take(url: str) -> Owner:
    """Take a lock of its own for this process, in a store that is there; on PostgreSQL by a further connection.

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
            self._descriptor = make_locked(self._file, words())
        except OSError as error:
            raise StoreUnusable(f"{folder}: no file can be locked there: {error.strerror}; {ELSEWHERE}") from error
        for file in folder.glob("*.lock"):
            # In this order: one that is free and still empty is just being made.
            with suppress(OSError):
                if file.stat().st_size and is_free(file):
                    file.unlink()

    def renew(self) -> None:
        """Do nothing: the system keeps the lock as long as the process lives."""

    def _let_go(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
            with suppress(OSError):
                self._file.unlink()


def is_alive(url: str, token: str) -> bool:
    """Say whether the process of that token still holds its lock; true where that cannot be told.

    Raises StoreUnusable when the server cannot be asked.
    """
    store = file_of(url)
    if store is None:
        from run_specialist.store import server_owner  # noqa: PLC0415 - a database library

        return server_owner.is_alive(url, token)
    file = _file(store, token)
    if not is_free(file):
        return True
    # It may belong to somebody else, or the folder; whoever writes next removes it as well.
    with suppress(OSError):
        file.unlink(missing_ok=True)
    return False


def may_be_cut(url: str) -> bool:
    """Say whether a lock that is free may be held again after `GRACE`: by a process whose session was cut."""
    return file_of(url) is None


def describe(url: str, token: str) -> str:
    """Return what the process of that token says of itself: process id, host, start.

    Raises StoreUnusable when the server cannot be asked.
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
    # By whatever name a store is opened, its owners are found in one place.
    real = store.resolve()
    return real.with_name(f"{real.name}.owners")


def _file(store: Path, token: str) -> Path:
    return _folder(store) / f"{digest(token).hex()[:32]}.lock"

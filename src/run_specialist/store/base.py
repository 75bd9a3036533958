"""The interfaces of a session and of an owner; the wait between attempts."""

import hashlib
import os
import secrets
import socket
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

from run_specialist.errors import StoreUnusable
from run_specialist.store.location import shown
from run_specialist.store.rows import Row

_T = TypeVar("_T")


class StoreFailure(Exception):
    """The database accepts no writes; any other exception is caused by a single row."""


class StoreOutage(StoreFailure):
    """A temporary outage: the server is restarting, the file is locked, or the disk is full."""


class Session(ABC):
    """One connection, for use by one thread."""

    lock = ""
    """Clause that locks the rows of a query until the commit."""
    patience: float
    """How long to retry during an outage [s]."""

    @abstractmethod
    def transaction(self, *, lasting: bool = False) -> AbstractContextManager[None]:
        """Run the block in a transaction, which is rolled back if the block raises.

        lasting: once committed, the data must survive a power failure.
        Raises StoreFailure or StoreOutage, with a one-line message.
        """

    def sync(self) -> None:  # noqa: B027 - a server syncs each commit
        """Sync recent commits to disk if due; called when no run waits for it. Never raises."""

    @abstractmethod
    def write(self, statement: str, rows: Sequence[Row]) -> int:
        """Execute a statement once per row, if there are any; return the number of rows affected."""

    @abstractmethod
    def read(self, statement: str, **values: object) -> list[tuple[Any, ...]]:
        """Return the rows of a query with these parameters."""

    @abstractmethod
    def close(self) -> None:
        """Close the connection."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """Exponential backoff: an immediate second attempt, then growing pauses until a time limit."""

    first: float = 0.1
    """First pause; each further pause is twice as long [s]."""
    longest: float = 2.0
    """Maximum pause [s]."""
    patience: float | None = None
    """How long to retry after the first failure; None = the default of the store [s]."""
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    def pauses(self, patience: float) -> Iterator[float]:
        """Yield the pause before each retry, starting at the first failure [s].

        patience: time limit if `self.patience` is None [s].
        """
        until = self.clock() + (patience if self.patience is None else self.patience)
        yield 0
        pause = self.first
        while (left := until - self.clock()) > 0:
            yield min(pause, left)
            pause = min(2 * pause, self.longest)


def retried(  # noqa: PLR0913, PLR0917 - all of one store
    operation: Callable[[], _T],
    url: str,
    session: Session,
    backoff: Backoff,
    on_outage: Callable[[str | None], None] = lambda _why: None,
    reconnect: Callable[[], None] = lambda: None,
) -> _T:
    """Run an operation; retry once after a failure, and with backoff during an outage.

    on_outage: called with the reason of each failure, and with None when the operation has succeeded or is given up.
    reconnect: called before each further attempt.
    Raises StoreUnusable.
    """
    pauses = backoff.pauses(session.patience)
    failed = 0
    try:
        while True:
            try:
                return operation()
            except StoreFailure as error:
                failed += 1
                pause = next(pauses, None)
                if pause is None or (failed > 1 and not isinstance(error, StoreOutage)):
                    raise StoreUnusable(f"{shown(url)}: {error}") from error
                on_outage(str(error))
            backoff.sleep(pause)
            reconnect()
    finally:
        if failed:
            on_outage(None)


class Owner(ABC):
    """Holds a lock until it is closed or the process dies."""

    def __init__(self) -> None:
        self.token = secrets.token_hex(16)
        """Identifies this process in the runs that it writes."""
        self._process = os.getpid()

    def close(self) -> None:
        """Release the lock; idempotent. A forked child inherits the lock but must not release it for its parent."""
        if self._process == os.getpid():
            self._release()

    def renew(self) -> None:  # noqa: B027 - the operating system keeps the lock of a file until the process ends
        """Reacquire the lock if the connection that held it was closed.

        Raises StoreUnusable.
        """

    @abstractmethod
    def _release(self) -> None: ...


def process_description() -> str:
    """Return a description of this process for people: process id, host, start time."""
    return f"process {os.getpid()} on {socket.gethostname()}, since {datetime.now(UTC):%Y-%m-%d %H:%M} UTC"


def digest(token: str) -> bytes:
    """Return the hash that names a lock; an untrusted token can so never form a path."""
    return hashlib.sha256(token.encode(errors="replace")).digest()

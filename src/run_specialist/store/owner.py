"""The owner lock that marks this process as the live writer of its runs."""

import hashlib
import os
import secrets
import socket
from abc import ABC, abstractmethod
from datetime import UTC, datetime


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

    @abstractmethod
    def renew(self) -> None:
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

"""This process as one that writes into a store."""

import hashlib
import os
import secrets
import socket
from abc import ABC, abstractmethod
from datetime import UTC, datetime


class Owner(ABC):
    """Holds a lock that the system lets go when the process dies, for as long as it is not closed."""

    def __init__(self) -> None:
        self.token = secrets.token_hex(16)
        """What the runs that it writes carry."""
        self._process = os.getpid()

    def close(self) -> None:
        """Let it go; harmless a second time. A forked child holds it too, but cannot let it go for its parent."""
        if self._process == os.getpid():
            self._let_go()

    @abstractmethod
    def renew(self) -> None:
        """Take it again where the connection that held it was cut.

        Raises StoreUnusable.
        """

    @abstractmethod
    def _let_go(self) -> None: ...


def words() -> str:
    """Return what a process says of itself to people."""
    return f"process {os.getpid()} on {socket.gethostname()}, since {datetime.now(UTC):%Y-%m-%d %H:%M} UTC"


def digest(token: str) -> bytes:
    """Return what names a lock: a token that was never ours must not name a file elsewhere."""
    return hashlib.sha256(token.encode(errors="replace")).digest()

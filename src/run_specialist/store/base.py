"""The interface of the writer's database session: transactions of plain SQL statements."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager

from run_specialist.store.statements import Statements, Values


class StoreFailure(Exception):
    """The database accepts no writes; any other exception is caused by a single row."""


class StoreOutage(StoreFailure):
    """A temporary outage: the server is restarting, the file is locked, or the disk is full."""


class Session(ABC):
    """One connection, for use by one thread."""

    statements: Statements
    """SQL in the dialect of the database."""
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
    def write(self, statement: str, rows: Sequence[Values]) -> int:
        """Execute a statement once per row of values; return the number of rows affected."""

    @abstractmethod
    def read(self, statement: str, values: Values) -> list[Values]:
        """Return the rows of a query."""

    @abstractmethod
    def close(self) -> None:
        """Close the connection."""

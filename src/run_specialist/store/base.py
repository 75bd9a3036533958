"""A connection as the one writer of a store uses it: whole transactions of plain statements."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager

from run_specialist.store.statements import Statements, Values


class StoreBroken(Exception):
    """The database takes nothing at all; anything else that is raised is the fault of one of the rows."""


class StoreAway(StoreBroken):
    """It takes nothing now but may soon: the server restarts, the file is locked, the disk is full."""


class Session(ABC):
    """One connection, for one thread."""

    statements: Statements
    """In the words of its database."""
    patience: float
    """How long to try again while the database is away [s]."""

    @abstractmethod
    def transaction(self, *, lasting: bool = False) -> AbstractContextManager[None]:
        """Commit all that is done in it, or nothing.

        lasting: it is to survive a power failure as soon as it is committed.
        Raises Broken or Away, in one line.
        """

    @abstractmethod
    def write(self, statement: str, rows: Sequence[Values]) -> int:
        """Run a statement for each of some rows, and return how many rows it hit."""

    @abstractmethod
    def read(self, statement: str, values: Values) -> list[Values]:
        """Return what a query finds."""

    @abstractmethod
    def close(self) -> None:
        """Close it."""

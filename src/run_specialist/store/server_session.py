"""The writer's connection to a PostgreSQL database."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DataError, IntegrityError, InterfaceError, InternalError, OperationalError, SQLAlchemyError

from run_specialist.store.base import Session, StoreAway, StoreBroken
from run_specialist.store.failures import reason_of
from run_specialist.store.identity import NAMESPACE
from run_specialist.store.statements import Statements, Values

PATIENCE = 60.0
"""The longest that a server which restarts is waited for [s]."""

_PASSING = (OperationalError, InterfaceError, InternalError)
"""A connection that was cut, a server that starts, a full disk, a standby that is not promoted yet."""


class ServerSession(Session):
    """A connection of SQLAlchemy, and a new one where it broke; see `Session`."""

    statements = Statements("%s", f"{NAMESPACE}.", " for update")
    patience = PATIENCE

    def __init__(self, engine: Engine) -> None:
        """Connect."""
        self._engine = engine
        self._connection: Connection | None = engine.connect()

    @contextmanager
    def transaction(self, *, lasting: bool = False) -> Iterator[None]:  # noqa: ARG002 - the server syncs each commit
        """Commit all that is done in it, or nothing."""
        try:
            with self._connected().begin():
                yield
        except (DataError, IntegrityError):
            raise
        except SQLAlchemyError as error:
            self._disconnect()
            raise (StoreAway if isinstance(error, _PASSING) else StoreBroken)(reason_of(error)) from error

    def write(self, statement: str, rows: Sequence[Values]) -> int:
        """Run a statement for each of some rows, and return how many rows it hit."""
        return self._connected().exec_driver_sql(statement, [*rows]).rowcount

    def read(self, statement: str, values: Values) -> list[Values]:
        """Return what a query finds."""
        return [tuple(row) for row in self._connected().exec_driver_sql(statement, values)]

    def close(self) -> None:
        """Close the connection and its engine."""
        self._disconnect()

    def _connected(self) -> Connection:
        if self._connection is None:
            self._connection = self._engine.connect()
        return self._connection

    def _disconnect(self) -> None:
        """Close the connection, and those that the engine keeps: one that broke may have broken them all."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
        self._engine.dispose()

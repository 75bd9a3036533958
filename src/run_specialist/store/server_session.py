"""The writer's session on a PostgreSQL database."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DataError, IntegrityError, InterfaceError, InternalError, OperationalError, SQLAlchemyError

from run_specialist.store.base import Session, StoreFailure, StoreOutage
from run_specialist.store.failures import reason_of
from run_specialist.store.identity import NAMESPACE
from run_specialist.store.statements import Statements, Values

PATIENCE = 60.0
"""How long to retry while the server restarts [s]."""

_TEMPORARY = (OperationalError, InterfaceError, InternalError)
"""Errors for a closed connection, a starting server, a full disk, a standby that is not promoted yet."""


class ServerSession(Session):
    """A session on a SQLAlchemy connection, which is replaced after an error."""

    statements = Statements("%s", f"{NAMESPACE}.", " for update")
    patience = PATIENCE

    def __init__(self, engine: Engine) -> None:
        """Connect to the database."""
        self._engine = engine
        self._connection: Connection | None = engine.connect()

    @contextmanager
    def transaction(self, *, lasting: bool = False) -> Iterator[None]:  # noqa: ARG002 - the server syncs each commit
        """Run the block in a transaction, which is rolled back if the block raises."""
        try:
            with self._connected().begin():
                yield
        except (DataError, IntegrityError):
            raise
        except SQLAlchemyError as error:
            self._disconnect()
            raise (StoreOutage if isinstance(error, _TEMPORARY) else StoreFailure)(reason_of(error)) from error

    def write(self, statement: str, rows: Sequence[Values]) -> int:
        """Execute a statement once per row of values; return the number of rows affected."""
        return self._connected().exec_driver_sql(statement, [*rows]).rowcount

    def read(self, statement: str, values: Values) -> list[Values]:
        """Return the rows of a query."""
        return [tuple(row) for row in self._connected().exec_driver_sql(statement, values)]

    def close(self) -> None:
        """Close the connection and its engine."""
        self._disconnect()

    def _connected(self) -> Connection:
        if self._connection is None:
            self._connection = self._engine.connect()
        return self._connection

    def _disconnect(self) -> None:
        """Close the connection and the engine's pool: after a failure, pooled connections may be broken too."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
        self._engine.dispose()

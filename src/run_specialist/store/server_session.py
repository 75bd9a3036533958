"""The writer's connection to a PostgreSQL database."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from sqlalchemy import Engine
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError

from run_specialist.store.identity import NAMESPACE
from run_specialist.store.session import Broken, Session
from run_specialist.store.statements import Statements, Values


class ServerSession(Session):
    """A connection of SQLAlchemy, which makes a new one where it broke; see `Session`."""

    statements = Statements("%s", f"{NAMESPACE}.", " for update")

    def __init__(self, engine: Engine) -> None:
        """Connect."""
        self._engine = engine
        self._connection = engine.connect()

    @contextmanager
    def transaction(self, *, lasting: bool = False) -> Iterator[None]:  # noqa: ARG002 - the server syncs each commit
        """Commit all that is done in it, or nothing."""
        try:
            with self._connection.begin():
                yield
        except (DataError, IntegrityError):
            raise
        except DBAPIError as error:
            raise Broken(str(error.orig).strip().partition("\n")[0]) from error

    def write(self, statement: str, rows: Sequence[Values]) -> int:
        """Run a statement for each of some rows, and return how many rows it hit."""
        return self._connection.exec_driver_sql(statement, [*rows]).rowcount

    def read(self, statement: str, values: Values) -> list[Values]:
        """Return what a query finds."""
        return [tuple(row) for row in self._connection.exec_driver_sql(statement, values)]

    def close(self) -> None:
        """Close the connection and its engine."""
        self._connection.close()
        self._engine.dispose()

"""PgQueuer's driver over one connection that is opened again after a failure, and the names of its tables."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import psycopg
from pgqueuer.adapters.persistence.qb import QueryBuilderEnvironment, QueryQueueBuilder, QuerySchedulerBuilder
from pgqueuer.adapters.persistence.queries import Queries
from pgqueuer.domain.settings import DBSettings, Durability
from pgqueuer.domain.types import Channel
from pgqueuer.ports.driver import Driver
from psycopg import AsyncRawCursor
from psycopg.rows import dict_row

from run_specialist.errors import StoreUnusable
from run_specialist.store.failures import with_grant
from run_specialist.store.location import shown
from run_specialist.store.postgresql import parsed, readable_server_errors, user_of

QUEUE_SCHEMA = "run_specialist_queue"
"""PostgreSQL schema of the tables of PgQueuer; its tables never mix with those of another program."""
REPLY_TIMEOUT = 10.0
"""How long a statement may take before the connection is replaced [s]."""
NOT_SET_UP = "the queue is not set up; run `specialists fleet setup`"

_NAMES = DBSettings(
    # All names are given, because PgQueuer reads those that are not from variables such as FUNCTION and TRIGGER.
    prefix="",
    db_schema=QUEUE_SCHEMA,
    channel=Channel(QUEUE_SCHEMA),
    function="fn_pgqueuer_changed",
    statistics_table="pgqueuer_statistics",
    queue_status_type="pgqueuer_status",
    queue_table="pgqueuer",
    queue_table_log="pgqueuer_log",
    trigger="tg_pgqueuer_changed",
    schedules_table="pgqueuer_schedules",
    durability=Durability.durable,
    widen_id=True,
)


Fetch = Callable[..., Awaitable[list[dict[str, object]]]]
"""Returns the rows of a statement, which is followed by its values."""


class QueueAway(Exception):
    """The database does not respond at the moment; the text is the reason, in one line."""


class QueueConnection:
    """Executes statements one after another, in a separate connection with automatic commits.

    After a failure the next statement opens a new connection; repeating the failed one is up to the caller. It has
    those methods of PgQueuer's `Driver` that statements need, and not those for its loop and for notifications.
    """

    def __init__(self, url: str) -> None:
        """Connect on the first statement.

        url: a PostgreSQL store.
        """
        self.url = url
        self._connection: psycopg.AsyncConnection[Any] | None = None
        self._one_at_a_time = asyncio.Lock()

    async def fetch(self, query: str, *args: object) -> list[dict[str, object]]:
        """Return the rows of a statement with the placeholders $1, $2, ...

        Raises QueueAway if the database cannot be reached, StoreUnusable if it has no queue.
        """
        async with self._usable():
            return await self._fetched(query, args)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Fetch]:
        """Return a context with a function like `fetch` that executes all statements in one transaction.

        Raises as `fetch` does; the transaction is rolled back if the block raises.
        """
        async with self._usable(), (await self._opened()).transaction():
            yield lambda query, *args: self._fetched(query, args)

    @asynccontextmanager
    async def _usable(self) -> AsyncIterator[None]:
        """Run the block with exclusive use of the connection, with a timeout and readable errors."""
        async with self._one_at_a_time:
            try:
                async with asyncio.timeout(REPLY_TIMEOUT):
                    yield
            except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName) as error:
                raise StoreUnusable(f"{shown(self.url)}: {NOT_SET_UP}") from error
            except psycopg.errors.InsufficientPrivilege as error:
                raise StoreUnusable(f"{shown(self.url)}: {with_grant(error, user_of(self.url))}") from error
            except psycopg.ProgrammingError as error:
                # Another version has changed the tables.
                raise StoreUnusable(
                    f"{shown(self.url)}: the tables of the queue do not fit this version ({_reason(error)}); install "
                    "the version of the other hosts, then run `specialists fleet setup`"
                ) from error
            except (psycopg.OperationalError, psycopg.InterfaceError, TimeoutError, OSError) as error:
                await self._drop()
                raise QueueAway(_reason(error)) from error
            except BaseException:
                # The state of a statement that was cancelled is unknown.
                await self._drop()
                raise

    async def execute(self, query: str, *args: object) -> str:
        """Execute a statement; raises as `fetch` does."""
        await self.fetch(query, *args)
        return ""

    async def close(self) -> None:
        """Close the connection; the next statement would open another."""
        await self._drop()

    async def _fetched(self, query: str, values: tuple[object, ...]) -> list[dict[str, object]]:
        cursor = AsyncRawCursor(await self._opened(), row_factory=dict_row)
        await cursor.execute(query, values or None)
        return await cursor.fetchall() if cursor.description else []

    async def _opened(self) -> psycopg.AsyncConnection[Any]:
        if self._connection is None:
            self._connection = await psycopg.AsyncConnection.connect(**parameters(self.url), autocommit=True)
        return self._connection

    async def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()


def queries(connection: QueueConnection) -> Queries:
    """Return PgQueuer's statements for its tables in `QUEUE_SCHEMA`."""
    return Queries(
        cast("Driver", connection),
        QueryBuilderEnvironment(_NAMES),
        QueryQueueBuilder(_NAMES),
        QuerySchedulerBuilder(_NAMES),
    )


def parameters(url: str) -> dict[str, Any]:
    """Return the parameters of the driver, as the connections of the store have them."""
    with readable_server_errors(url):
        settings = parsed(url).update_query_dict({"application_name": "run-specialist queue"})
        return dict(settings.get_dialect()().create_connect_args(settings)[1])


def _reason(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__

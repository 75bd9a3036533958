"""SQLAlchemy's tables and engines, revisions, readable errors."""

import sqlite3
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.types import TypeDecorator

from run_specialist.errors import StoreUnusable
from run_specialist.store.location import VERSION, shown
from run_specialist.store.rows import pack, unpack
from run_specialist.store.schema import SCHEMAS, SQLITE


class PackedText(TypeDecorator[str]):
    """A packed text."""

    impl = sa.LargeBinary
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: sa.Dialect) -> bytes | None:  # noqa: ARG002 - SQLAlchemy's
        """Pack a text."""
        return None if value is None else pack(value)

    def process_result_value(self, value: bytes | None, dialect: sa.Dialect) -> str | None:  # noqa: ARG002 - SQLAlchemy's
        """Return the original text."""
        return None if value is None else unpack(value)


# SQLAlchemy has the same names; other databases have another type of bytes.
_TYPES = {kind: getattr(sa, name) for kind, name in SQLITE.items()} | {"packed": PackedText, "folded": sa.LargeBinary}
metadata = sa.MetaData()


runs, turns, calls, events, messages, changes, search, batches, items, gates = (
    sa.Table(
        name,
        metadata,
        *(
            sa.Column[object](
                column, _TYPES[kind.removesuffix("?")], primary_key=column in schema.key, nullable=kind.endswith("?")
            )
            for column, kind in schema.columns.items()
        ),
        *(sa.Index(index, *of) for index, of in schema.indexes.items()),
    )
    for name, schema in SCHEMAS.items()
)


MIGRATIONS = "run_specialist.store:migrations"
"""The folder of the revisions."""
# Serializes upgrades, since Alembic keeps its context in globals.
_ALEMBIC = threading.Lock()

stamp = sa.Table("alembic_version", sa.MetaData(), sa.Column("version_num", sa.String(32), primary_key=True))
"""Alembic's table with the newest applied revision."""


def make_tables(connection: sa.Connection) -> None:
    """Create the newest tables in an empty schema, without importing Alembic, which takes longer than a run."""
    metadata.create_all(connection, checkfirst=False)
    stamp.metadata.create_all(connection, checkfirst=False)
    connection.execute(sa.insert(stamp).values(version_num=f"{VERSION:04}"))


def upgrade(connection: sa.Connection) -> None:
    """Apply the missing revisions in the transaction of this connection."""
    from alembic import command  # noqa: PLC0415 - only an older store needs it
    from alembic.config import Config  # noqa: PLC0415 - as above

    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", MIGRATIONS)
    with _ALEMBIC:
        command.upgrade(config, "head")


def upgrade_file(connect: Callable[[], sqlite3.Connection]) -> None:
    """Upgrade an SQLite file in one transaction, unless another process was faster.

    Raises sqlite3.Error.
    """
    engine = file_engine(connect, "begin immediate")
    try:
        with engine.begin() as connection:
            if int(connection.exec_driver_sql("pragma user_version").scalar_one()) < VERSION:
                upgrade(connection)
                connection.exec_driver_sql(f"pragma user_version = {VERSION}")
    except DBAPIError as error:
        raise (error.orig if isinstance(error.orig, sqlite3.Error) else error) from None
    finally:
        engine.dispose()


def file_engine(connect: Callable[[], sqlite3.Connection], begin: str) -> sa.Engine:
    """Return an engine that starts each transaction with the statement `begin`."""
    engine = sa.create_engine("sqlite:///any", creator=connect)
    sa.event.listen(engine, "begin", lambda connection: connection.exec_driver_sql(begin))
    return engine


@contextmanager
def readable_errors(url: str) -> Iterator[None]:
    """Convert errors of the database and of decoding stored values to StoreUnusable."""
    try:
        yield
    except SQLAlchemyError as error:
        raise StoreUnusable(f"{shown(url)}: {reason_of(error)}") from None
    except (zlib.error, ValueError, LookupError, TypeError) as error:
        raise StoreUnusable(f"{shown(url)} is damaged: {error}") from None


def reason_of(error: BaseException) -> str:
    """Return the first line of the driver's or the server's message, or else of SQLAlchemy's."""
    cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    return str(cause).strip().partition("\n")[0] or type(cause).__name__

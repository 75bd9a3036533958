"""The version of a store's tables: made new at once, or brought up to date by the revisions under `migrations`."""

import sqlite3
import threading
from collections.abc import Callable

from sqlalchemy import Column, Connection, MetaData, String, Table, insert
from sqlalchemy.exc import DBAPIError

from run_specialist.store.engines import file_engine
from run_specialist.store.identity import VERSION
from run_specialist.store.tables import metadata

_ALEMBIC = threading.Lock()
"""Alembic keeps what it works on in globals."""

stamp = Table("alembic_version", MetaData(), Column("version_num", String(32), primary_key=True))
"""Alembic's own table, which says the newest revision that was applied."""


def make_tables(connection: Connection) -> None:
    """Make the newest tables where there are none; without Alembic, whose import takes longer than all of a run."""
    metadata.create_all(connection, checkfirst=False)
    stamp.metadata.create_all(connection, checkfirst=False)
    connection.execute(insert(stamp).values(version_num=f"{VERSION:04}"))


def upgrade(connection: Connection, revision: str = "head") -> None:
    """Apply the revisions that are missing, inside the transaction of this connection."""
    from alembic import command  # noqa: PLC0415 - only an older store needs it
    from alembic.config import Config  # noqa: PLC0415 - likewise

    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", "run_specialist.store:migrations")
    with _ALEMBIC:
        command.upgrade(config, revision)


def upgrade_file(connect: Callable[[], sqlite3.Connection]) -> None:
    """Bring an SQLite file up to date in one transaction, unless another process was faster.

    Raises what SQLite says.
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

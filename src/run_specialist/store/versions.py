"""Create the newest tables, or upgrade older ones with the revisions in `migrations`."""

import sqlite3
import threading
from collections.abc import Callable

from sqlalchemy import Column, Connection, MetaData, String, Table, insert
from sqlalchemy.exc import DBAPIError

from run_specialist.store.engines import file_engine
from run_specialist.store.identity import VERSION
from run_specialist.store.tables import metadata

MIGRATIONS = "run_specialist.store:migrations"
"""The folder of the revisions."""
_ALEMBIC = threading.Lock()
"""Serializes upgrades, since Alembic keeps its context in globals."""

stamp = Table("alembic_version", MetaData(), Column("version_num", String(32), primary_key=True))
"""Alembic's table with the newest applied revision."""


def make_tables(connection: Connection) -> None:
    """Create the newest tables in an empty schema, without importing Alembic, which takes longer than a run."""
    metadata.create_all(connection, checkfirst=False)
    stamp.metadata.create_all(connection, checkfirst=False)
    connection.execute(insert(stamp).values(version_num=f"{VERSION:04}"))


def upgrade(connection: Connection) -> None:
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

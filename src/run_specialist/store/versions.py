"""The version of a store's tables: made new at once, or brought up to date by the revisions under `migrations`."""

import threading

from sqlalchemy import Column, Connection, MetaData, String, Table, insert

from run_specialist.errors import StoreUnusable
from run_specialist.store.place import ELSEWHERE
from run_specialist.store.schema import VERSION, metadata

_ALEMBIC = threading.Lock()
"""Alembic keeps what it works on in globals."""

_stamp = Table("alembic_version", MetaData(), Column("version_num", String(32), primary_key=True))
"""Alembic's own table, which says the newest revision that was applied."""


def make_tables(connection: Connection) -> None:
    """Make the newest tables where there are none; without Alembic, whose import takes longer than all of a run."""
    metadata.create_all(connection, checkfirst=False)
    _stamp.metadata.create_all(connection, checkfirst=False)
    connection.execute(insert(_stamp).values(version_num=f"{VERSION:04}"))


def upgrade(connection: Connection, revision: str = "head") -> None:
    """Apply the revisions that are missing, inside the transaction of this connection."""
    from alembic import command  # noqa: PLC0415 - only an older store needs it
    from alembic.config import Config  # noqa: PLC0415 - likewise

    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", "run_specialist.store:migrations")
    with _ALEMBIC:
        command.upgrade(config, revision)


def newer(shown: str, version: int) -> StoreUnusable:
    """Return the refusal of a store that a later program has brought up to its own date."""
    return StoreUnusable(
        f"{shown} was written by a newer run-specialist (its tables are of version {version}, this one knows "
        f"{VERSION}); update run-specialist, or {ELSEWHERE}"
    )

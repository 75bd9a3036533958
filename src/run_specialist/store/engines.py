"""SQLAlchemy engines for SQLite files."""

import sqlite3
from collections.abc import Callable

from sqlalchemy import Engine, create_engine, event


def file_engine(connect: Callable[[], sqlite3.Connection], begin: str) -> Engine:
    """Return an engine that starts each transaction with the statement `begin`."""
    engine = create_engine("sqlite:///any", creator=connect)
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql(begin))
    return engine

"""Open a store by its URL as an SQLAlchemy engine, creating or upgrading the store where needed."""

from sqlalchemy import Engine

from run_specialist.errors import StoreUnusable
from run_specialist.store.engines import file_engine
from run_specialist.store.location import NONE, file_of, shown
from run_specialist.store.postgresql import SCHEMES, open_database
from run_specialist.store.sqlite_file import connect, open_file, reading


def open_engine(url: str, *, write: bool = True) -> Engine:
    """Return an engine for a store, set up for the transactions and the schema of its database.

    write: if False, a missing store is not created, and a transaction sees one snapshot from its first query on. An
    older store is upgraded in both cases.
    Raises StoreUnusable with a one-line message; a database of another program or a newer version is not modified.
    """
    path = file_of(url)
    if path is not None:
        open_file(path, write=write).close()
        if write:
            return file_engine(lambda: connect(path, "rw"), "begin immediate")
        mode = reading(path)
        return file_engine(lambda: connect(path, mode), "begin")
    if url.startswith(SCHEMES):
        return open_database(url, write=write)
    if url == NONE:
        raise StoreUnusable(f"runs are not stored (the store is `{NONE}`); choose a store with `store`")
    raise StoreUnusable(
        f"{shown(url)} is not a valid store; use a path, sqlite:///FILE, or postgresql://USER@HOST/DATABASE"
    )

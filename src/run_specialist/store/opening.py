"""From the URL of a store to an engine that is ready: what is missing is made, what is older is brought up to date."""

from sqlalchemy import Engine

from run_specialist.errors import StoreUnusable
from run_specialist.store.engines import file_engine
from run_specialist.store.location import NONE, file_of, shown
from run_specialist.store.postgresql import SCHEMES, open_database
from run_specialist.store.sqlite_file import connect, open_file, reading


def open_engine(url: str, *, write: bool = True) -> Engine:
    """Open a store; its transactions are begun as its database wants them, and tables are found where they stand.

    write: without it nothing is made, and a transaction sees one state of the store from its first query on. An older
    store is brought up to date all the same.
    Raises StoreUnusable with one line; a store that is not ours or is newer is then as it was, byte for byte.
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
        raise StoreUnusable(f"runs are not stored (the store is `{NONE}`); name a store with --store")
    raise StoreUnusable(
        f"{shown(url)} names no store; write a path, sqlite:///FILE, or postgresql://USER@HOST/DATABASE"
    )

"""From the URL of a store to the session of its writer; a database library is imported only where a server is named."""

from run_specialist.store.base import Session
from run_specialist.store.file_session import FileSession
from run_specialist.store.location import file_of
from run_specialist.store.sqlite_file import open_file


def open_session(url: str) -> Session:
    """Open a store to write, and make it where there is none, or bring it up to date.

    Raises StoreUnusable with one line; a store that is not ours or is newer is then as it was, byte for byte.
    """
    path = file_of(url)
    if path is not None:
        return FileSession(open_file(path, write=True))
    from run_specialist.store.opening import open_engine  # noqa: PLC0415 - a database library
    from run_specialist.store.server_session import ServerSession  # noqa: PLC0415 - likewise

    return ServerSession(open_engine(url))

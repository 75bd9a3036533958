"""Open the writer's session by the URL of a store; SQLAlchemy is imported only for a server."""

from run_specialist.store.base import Session
from run_specialist.store.file_session import FileSession
from run_specialist.store.location import file_of
from run_specialist.store.sqlite_file import open_file


def open_session(url: str) -> Session:
    """Open a store for writing; create it if it is missing, or upgrade it.

    Raises StoreUnusable with a one-line message; a database of another program or a newer version is not modified.
    """
    path = file_of(url)
    if path is not None:
        return FileSession(open_file(path, write=True), path)
    from run_specialist.store.opening import open_engine  # noqa: PLC0415 - a database library
    from run_specialist.store.server_session import ServerSession  # noqa: PLC0415 - as above

    return ServerSession(open_engine(url))

"""The owner of runs in a PostgreSQL database: its lock is one of the server's own."""

from sqlalchemy import Connection, NullPool, create_engine, text
from sqlalchemy.exc import DBAPIError

from run_specialist.store.owner import Owner, digest, words
from run_specialist.store.postgresql import parsed, told

_HELD = (
    "pg_locks where locktype = 'advisory' and objsubid = 1 and granted "
    "and database = (select oid from pg_database where datname = current_database()) "
    "and (classid::bigint << 32) | objid::bigint = :key"
)
"""The lock of one owner, as the server lists it."""


class ServerOwner(Owner):
    """Holds an advisory lock of the server by a connection that does nothing else."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self._url = url
        self._connection = _connect(url, words())
        self._lock()

    def renew(self) -> None:
        """Ask the connection; where it is gone, take a new one."""
        with told(self._url):
            try:
                self._connection.execute(text("select 1"))
            except DBAPIError:
                self._connection.close()
                self._connection = _connect(self._url, words())
                self._lock()

    def _lock(self) -> None:
        with told(self._url):
            # Shared, so that a broken session that the server has not missed yet is not waited for.
            self._connection.execute(text("select pg_advisory_lock_shared(:key)"), {"key": _key(self.token)})

    def _let_go(self) -> None:
        self._connection.close()


def is_alive(url: str, token: str) -> bool:
    """Say whether the process of that token still holds its lock.

    Raises StoreUnusable when the server cannot be asked.
    """
    return bool(_asked(url, f"select 1 from {_HELD}", token))  # noqa: S608 - ours


def describe(url: str, token: str) -> str | None:
    """Return what the process of that token says of itself; None where nobody holds its lock.

    Raises StoreUnusable when the server cannot be asked.
    """
    held = f"select pid from {_HELD}"  # noqa: S608 - ours
    return _asked(url, f"select application_name from pg_stat_activity where pid in ({held})", token)  # noqa: S608 - ours


def _key(token: str) -> int:
    return int.from_bytes(digest(token)[:8], signed=True)


def _connect(url: str, name: str = "") -> Connection:
    """Connect by a session that begins no transactions."""
    with told(url):
        named = parsed(url).update_query_dict({"application_name": name} if name else {})
        return create_engine(named, poolclass=NullPool, isolation_level="AUTOCOMMIT").connect()


def _asked(url: str, statement: str, token: str) -> str | None:
    with told(url), _connect(url) as connection:
        answer = connection.execute(text(statement), {"key": _key(token)}).scalar()
    return None if answer is None else str(answer)

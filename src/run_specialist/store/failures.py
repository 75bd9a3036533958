"""Convert database errors to one line that names the store."""

import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from run_specialist.errors import StoreUnusable
from run_specialist.store.identity import NAMESPACE
from run_specialist.store.location import shown


@contextmanager
def readable_errors(url: str) -> Iterator[None]:
    """Convert errors of the database and of decoding stored values to StoreUnusable."""
    try:
        yield
    except SQLAlchemyError as error:
        raise StoreUnusable(f"{shown(url)}: {reason_of(error)}") from None
    except (zlib.error, ValueError, LookupError, TypeError) as error:
        raise StoreUnusable(f"{shown(url)} is damaged: {error}") from None


def reason_of(error: SQLAlchemyError) -> str:
    """Return the first line of the driver's or the server's message, or else of SQLAlchemy's.

    A missing privilege is followed by the statement that grants it.
    """
    cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    return with_grant(cause)


def with_grant(error: BaseException, role: str = "ROLE") -> str:
    """Return the first line of an error, with the statement that grants a missing privilege.

    role: the role of the session.
    """
    reason = str(error).strip().partition("\n")[0] or type(error).__name__
    found = re.fullmatch(r"permission denied for (schema|database|table|sequence) (\S+)", reason)
    if found is None:
        return reason
    kind, name = found.groups()
    privilege = {"schema": "USAGE", "database": "CREATE", "sequence": "USAGE"}.get(kind)
    if kind == "table":
        schema = f"{NAMESPACE}_queue" if name.startswith("pgqueuer") else NAMESPACE
        privilege, name = "SELECT, INSERT, UPDATE, DELETE", f"{schema}.{name}"
    return f'{reason}; their owner can grant it: GRANT {privilege} ON {kind.upper()} {name} TO "{role}"'

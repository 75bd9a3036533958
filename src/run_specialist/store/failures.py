"""Convert database errors to one line that names the store."""

import zlib
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from run_specialist.errors import StoreUnusable
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
    """Return the first line of the driver's or the server's message, or else of SQLAlchemy's."""
    cause = error.orig if isinstance(error, DBAPIError) else error
    return str(cause).strip().partition("\n")[0] or type(cause).__name__

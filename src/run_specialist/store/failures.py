"""What a database says, in one line that names the store."""

import zlib
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from run_specialist.errors import StoreUnusable
from run_specialist.store.location import shown


@contextmanager
def in_one_line(url: str) -> Iterator[None]:
    """Turn what is raised in it into StoreUnusable: by the database, or by a value that cannot be read."""
    try:
        yield
    except SQLAlchemyError as error:
        raise StoreUnusable(f"{shown(url)}: {reason_of(error)}") from None
    except (zlib.error, ValueError, LookupError, TypeError) as error:
        raise StoreUnusable(f"{shown(url)} is damaged: {error}") from None


def reason_of(error: SQLAlchemyError) -> str:
    """Return the first line of what the driver or the server said, or else of what SQLAlchemy says."""
    said = error.orig if isinstance(error, DBAPIError) else error
    return str(said).strip().partition("\n")[0] or type(said).__name__

"""What a database says, in one line that names the store."""

import zlib
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import DBAPIError

from run_specialist.errors import StoreUnusable
from run_specialist.store.place import shown


@contextmanager
def in_one_line(url: str) -> Iterator[None]:
    """Turn what is raised in it into StoreUnusable: by the database, or by a value that cannot be read."""
    try:
        yield
    except DBAPIError as error:
        raise StoreUnusable(f"{shown(url)}: {str(error.orig).strip().partition(chr(10))[0]}") from None
    except (zlib.error, ValueError, LookupError, TypeError) as error:
        raise StoreUnusable(f"{shown(url)} is damaged: {error}") from None

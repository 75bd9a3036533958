"""Look up stored runs for evals."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from run_specialist.errors import RunNotFound, StoreMissing

if TYPE_CHECKING:
    from run_specialist.store.reader import Store
    from run_specialist.store.stored import StoredRun


class StoredRuns:
    """The runs in a store; there are none if nothing is stored."""

    def __init__(self, store: "Store | None") -> None:
        self.store = store

    def load(self, run_id: str) -> "StoredRun | None":
        """Return a run with its calls; None if it is not stored."""
        if self.store is None:
            return None
        try:
            return self.store.load(run_id)
        except RunNotFound:
            return None


@contextmanager
def stored_runs(url: str | None) -> Iterator[StoredRuns]:
    """Open the store of a runner for reading; raises StoreUnusable."""
    from run_specialist.store.location import NONE, place  # noqa: PLC0415 - fast `--help`
    from run_specialist.store.reader import Store  # noqa: PLC0415 - as above

    where = place(url).url
    try:
        opened = None if where == NONE else Store(where)
    except StoreMissing:
        opened = None
    try:
        yield StoredRuns(opened)
    finally:
        if opened is not None:
            opened.close()

"""Writers of new stores, which are closed in the end."""

from collections.abc import Callable, Iterator

import pytest

from run_specialist.store.place import Place
from run_specialist.store.writer import Writer


@pytest.fixture
def make_writer() -> Iterator[Callable[[str], Writer]]:
    """Make writers, each as a process of its own would have one."""
    made: list[Writer] = []

    def make(url: str) -> Writer:
        made.append(Writer(Place(url, named=False)))
        return made[-1]

    yield make
    for writer in made:
        writer.close()


@pytest.fixture
def writer(store_url: str, make_writer: Callable[[str], Writer]) -> Writer:
    """Return a writer of a new store, once on each kind of database."""
    return make_writer(store_url)

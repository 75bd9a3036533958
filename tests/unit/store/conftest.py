"""Fixtures that create writers of new stores and close them at the end of the test."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from run_specialist.store import writer as writers
from run_specialist.store.base import Backoff, StoreOutage
from run_specialist.store.ledger import Ledger
from run_specialist.store.location import Location
from run_specialist.store.sqlite import open_engine
from run_specialist.store.writer import Writer

SOON = Backoff(first=0.001, patience=0.05)
"""Backoff for stores that do not come back."""


@pytest.fixture(autouse=True)
def _short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the grace period for processes that may have lost their connection; in these tests they are dead."""
    monkeypatch.setattr(writers, "GRACE", 0.01)


@pytest.fixture
def make_writer() -> Iterator[Callable[..., Writer]]:
    """Return a function that creates writers, each of which acts as in a process of its own."""
    made: list[Writer] = []

    def make(url: str, backoff: Backoff = SOON) -> Writer:
        made.append(Writer(Location(url, named=False), backoff))
        return made[-1]

    yield make
    for writer in made:
        writer.close()


@pytest.fixture
def writer(store_url: str, make_writer: Callable[[str], Writer]) -> Writer:
    """Return a writer of a new store, once on each kind of database."""
    return make_writer(store_url)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of a store that does not exist yet."""
    return tmp_path / "runs.db"


@pytest.fixture
def lasting(make_writer: Callable[[str], Writer], path: Path) -> Writer:
    """Return a writer of an SQLite file."""
    return make_writer(f"sqlite:///{path}")


@pytest.fixture
def store(path: Path) -> Path:
    """Create a store in an SQLite file of its own folder, close it, and return its path."""
    path = path.parent / "store" / path.name
    open_engine(f"sqlite:///{path}").dispose()
    return path


@pytest.fixture
def lose_responses(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[None]]:
    """Return a function that breaks the connection after the next commits; it returns those that are left."""

    def lose(session: type, times: int = 1, meanwhile: Callable[[], object] = bool) -> list[None]:
        whole, left = session.transaction, [None] * times

        @contextmanager
        def transaction(self: object, **how: bool) -> Iterator[object]:
            with whole(self, **how) as opened:
                yield opened
            if left:
                left.pop()
                meanwhile()
                raise StoreOutage("server closed the connection unexpectedly")

        monkeypatch.setattr(session, "transaction", transaction)
        return left

    return lose


@pytest.fixture
def pause_writes(monkeypatch: pytest.MonkeyPatch) -> Callable[[], tuple[threading.Event, threading.Event]]:
    """Return a function that makes transactions wait; it returns events for their start and their release."""

    def pause() -> tuple[threading.Event, threading.Event]:
        writing, release = threading.Event(), threading.Event()
        write_batch = Ledger.write_batch

        def paused(self: Ledger, *given: object) -> object:
            writing.set()
            release.wait()
            return write_batch(self, *given)

        monkeypatch.setattr(Ledger, "write_batch", paused)
        return writing, release

    return pause

"""Folders whose listing a test controls, so that a walk lasts as long as the test wants."""

import itertools
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from run_specialist.safety.safe_files import Folder

PATIENCE = 30
"""Maximum time that a walk waits, so that a failing test ends [s]."""


def entry(name: str) -> SimpleNamespace:
    """Return a regular file as `os.scandir` lists it."""
    return SimpleNamespace(name=name, is_symlink=lambda: False, is_dir=lambda **_: False, is_file=lambda **_: True)


class HeldWalk:
    """A walk that waits in its first folder until it is released, and then sees the real files.

    Listings of specialists' folders are not walks and never wait.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.entered, self.released = threading.Event(), threading.Event()
        self.listings = 0
        listing = Folder.listing

        @contextmanager
        def held(folder: Folder) -> Iterator[Iterator[object]]:
            if Path(f"/proc/self/fd/{folder.descriptor}").resolve().name != "specialists":
                self.listings += 1
                self.entered.set()
                assert self.released.wait(PATIENCE)
            with listing(folder) as found:
                yield found

        monkeypatch.setattr(Folder, "listing", held)


class EndlessWalk:
    """A walk over a folder with endless files, which only the walk's own check can stop while a test waits."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, name: str = "{}.txt") -> None:
        self.entered, self.ended = threading.Event(), threading.Event()
        self._stopped = threading.Event()
        self._until = time.monotonic() + 3 * PATIENCE

        @contextmanager
        def endless(_: Folder) -> Iterator[Iterator[object]]:
            self.entered.set()
            try:
                yield (entry(name.format(number)) for number in itertools.takewhile(self._goes_on, itertools.count()))
            finally:
                self.ended.set()

        monkeypatch.setattr(Folder, "listing", endless)

    def _goes_on(self, _: int) -> bool:
        return not self._stopped.is_set() and time.monotonic() < self._until

    def stop(self) -> None:
        """Stop the listing, so that its thread does not outlive the test."""
        self._stopped.set()

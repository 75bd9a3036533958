"""The garbage collector: it rests while something large is imported, and has less to do while runs are under way."""

import gc
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_OF_OLD = 700
"""So many new objects there are before they are looked through, up to Python 3.12."""
_OF_NEW = 2_000
"""The same from Python 3.13 on."""


@contextmanager
def at_rest() -> Iterator[None]:
    """Import something large inside of this, a third faster: what it makes stays, and there is no garbage among it."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            _let_age()
            gc.enable()


def _let_age() -> None:
    """Count all that is there among the oldest, where what was imported ends up after two more looks at all of it."""
    # What a program has frozen is to stay so.
    if not gc.get_freeze_count():
        gc.freeze()
        gc.unfreeze()


class Easing:
    """As long as somebody is inside of it, new objects are looked through as seldom as newer Pythons do.

    A program that has set how often is left alone.
    """

    def __init__(self) -> None:
        # The collector may find a run that was thrown away, which leaves then, while its thread has the lock.
        self._lock = threading.RLock()
        self._inside = 0
        self._changed = False

    def __enter__(self) -> None:
        with self._lock:
            self._inside += 1
            first, *others = gc.get_threshold()
            if first == _OF_OLD and sys.version_info < (3, 13):
                gc.set_threshold(_OF_NEW, *others)
                self._changed = True

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            first, *others = gc.get_threshold()
            if self._changed and not self._inside:
                self._changed = False
                gc.set_threshold(_OF_OLD if first == _OF_NEW else first, *others)


eased = Easing()
"""That of this process."""


def begin_program() -> None:
    """Let a whole program start with the collector at rest, until `end_of_start`."""
    gc.disable()


def end_of_start() -> None:
    """Collect garbage from now on, but never look through what is there already.

    Nothing is done where no program has begun: what somebody else's throws away later may be a part of what is there.
    """
    if not gc.isenabled():
        gc.freeze()
        gc.enable()

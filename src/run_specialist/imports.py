"""Heavy imports, a third faster: what they make stays, and there is no garbage among it to look for."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_at_rest() -> Iterator[None]:
    """Import something large inside of this."""
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


def begin_program() -> None:
    """Let a whole program start so, until `end_of_start`."""
    gc.disable()


def end_of_start() -> None:
    """Collect garbage from now on, but never look through what is there already.

    Nothing is done where no program has begun: what somebody else's throws away later may be a part of what is there.
    """
    if not gc.isenabled():
        gc.freeze()
        gc.enable()

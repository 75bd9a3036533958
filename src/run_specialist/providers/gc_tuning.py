"""Pause the garbage collector while an SDK is imported, which creates half a million objects and no garbage."""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def paused(module: str) -> Iterator[None]:
    """Import a module without collections, a third faster; afterwards all objects belong to the oldest generation.

    Nothing stays disabled, frozen or changed: without this, two more collections would scan the same objects to move
    them there. A program that has disabled its collector, or frozen objects, keeps them so. If the module has been
    imported before, nothing is done: only to count a million frozen objects takes longer than a request.
    """
    if module in sys.modules:
        yield
        return
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            if not gc.get_freeze_count():
                gc.freeze()
                gc.unfreeze()
            gc.enable()

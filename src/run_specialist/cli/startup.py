"""Pause the garbage collector during start-up: imports create half a million objects, but no garbage."""

import gc


def pause_gc() -> None:
    """Turn the garbage collector off until `resume_gc`."""
    gc.disable()


def resume_gc() -> None:
    """Turn the garbage collector on again, and exclude all existing objects from later collections.

    Does nothing without `pause_gc`: in a program that calls the command as a function, existing objects may become
    garbage later.
    """
    if not gc.isenabled():
        gc.freeze()
        gc.enable()

"""Pause the garbage collector while the command starts: imports make half a million objects, and no garbage."""

import gc


def pause_gc() -> None:
    """Turn the garbage collector off until `resume_gc`."""
    gc.disable()


def resume_gc() -> None:
    """Turn the garbage collector on again, and exclude all objects made so far from later collections.

    Without `pause_gc`, nothing is done: in a program that calls the command as a function, existing objects may become
    garbage later.
    """
    if not gc.isenabled():
        gc.freeze()
        gc.enable()

"""Overhead of `Runner.map` over the same runs in tasks: an id for each item, stored before its first request."""

from collections.abc import Sequence
from functools import partial

from bench.figures.figure import Figure, Size
from bench.figures.row import Row
from bench.lab import Lab

CALLS = 6
"""Tool calls per item, one per request; the seventh request returns the answer."""
DELAY = 20
"""Response time of the model per request [ms]."""
AT_ONCE = 32
"""Items in progress."""
LIMIT = 1.15
"""Target for the wall time, as a multiple of that of `Runner.run` in tasks."""


def lap(lab: Lab, size: Size) -> None:
    """Answer all items by `Runner.map`, and by `Runner.run` in tasks."""
    for peer in lab.in_turn("ours_store_only", "ours_mapped"):
        with lab.failing(f"map.{peer}"):
            measured = lab.lap(
                peer, "items", lab.new_run(), items=size.crowd, calls=CALLS, delay=DELAY, at_once=AT_ONCE, seconds=900
            )
            for kind in ("wall", "cpu", "memory"):
                lab.note(f"map.{peer}.{kind}", measured[kind])


def rows(size: Size) -> Sequence[Row]:
    """Return the lines of the table."""
    what = f"{size.crowd:,} items x {CALLS + 1} requests, {AT_ONCE} at once, with a store, against tasks"
    row = partial(Row, full=size.full, of_ratio=True)
    return [
        row(f"{what}, wall", "s", "map.ours_mapped.wall", "map.ours_store_only.wall", LIMIT),
        row(f"{what}, CPU", "s", "map.ours_mapped.cpu", "map.ours_store_only.cpu", None),
        row(f"{what}, peak memory", "MB", "map.ours_mapped.memory", "map.ours_store_only.memory", None),
    ]


FIGURE = Figure("map", "Many items", lap, rows, lambda size: size.crowd_laps)

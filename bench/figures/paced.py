"""Overhead of a store on the wall time of a run if the model takes 50 ms per turn, far less than any real model."""

from collections.abc import Sequence

from bench.figures.figure import Figure, Size
from bench.figures.row import Row
from bench.lab import Lab

CALLS = (30, 31, 32)
"""Tool calls of the runs of one lap, one per turn; three runs, because the time of a single one varies."""
DELAY = 50
"""Time that the model takes per turn [ms]."""
LIMIT = 1.02
"""Target for the wall time of a stored run, as a multiple of that of a run without a store."""


def lap(lab: Lab, size: Size) -> None:  # noqa: ARG001 - the signature of all figures
    """Run with and without a store."""
    for peer in lab.in_turn("ours", "ours_store_only", "ours_stored"):
        with lab.failing(f"paced.{peer}"):
            measured = lab.lap(peer, "calls", lab.new_run(), calls=CALLS, delay=DELAY)
            for run in measured["runs"]:
                lab.note(f"paced.{peer}", run["wall"] / run["calls"])


def rows(size: Size) -> Sequence[Row]:
    """Return the line of the table."""
    what = f"wall per call, {CALLS[0]} calls, a model that takes {DELAY} ms per turn"
    ours = "paced.ours"
    return [
        Row(f"{what}, with a store, against without", "ms", "paced.ours_store_only", ours, LIMIT, of_ratio=True,
            full=size.full),
        Row(f"{what}, with store and events, against without", "ms", "paced.ours_stored", ours),
    ]  # fmt: skip


FIGURE = Figure("paced", "A model that takes time", lap, rows)

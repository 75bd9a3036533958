"""Many concurrent children, in one process and with one client."""

from collections.abc import Callable, Sequence
from functools import partial

from bench.figures.figure import Figure, Size
from bench.figures.row import Row
from bench.lab import Lab

CALLS = 10
DELAY = 20
"""Response time of the model per turn [ms]."""


def lap(lab: Lab, size: Size, name: str, count: Callable[[Size], int]) -> None:
    """Measure each peer once."""
    for peer in lab.in_turn("ours", "tool_runner", "ours_stored"):
        with lab.failing(f"{name}.{peer}"):
            run = lab.new_run()
            measured = lab.lap(peer, "children", run, children=count(size), calls=CALLS, delay=DELAY, seconds=900)
            for kind in ("wall", "cpu", "memory"):
                lab.note(f"{name}.{peer}.{kind}", measured[kind])


def rows(size: Size, name: str, count: Callable[[Size], int], wall: float, stored_wall: float | None) -> Sequence[Row]:
    """Return the lines of the table.

    wall: Maximum ratio of the wall time to that of `tool_runner`.
    stored_wall: The same for stored runs; None = no target.
    """
    what = f"{count(size):,} children x {CALLS} calls"
    row = partial(Row, full=size.full, of_ratio=True)
    ours, other, stored = (f"{name}.{peer}" for peer in ("ours", "tool_runner", "ours_stored"))
    stored_too = f"{what}, with store and events, against without"
    return [
        row(f"{what}, against tool_runner, wall", "s", f"{ours}.wall", f"{other}.wall", wall),
        row(f"{what}, against tool_runner, CPU", "s", f"{ours}.cpu", f"{other}.cpu", None),
        row(f"{what}, against tool_runner, peak memory", "MB", f"{ours}.memory", f"{other}.memory", 1.0),
        row(f"{what}, with store and events, against tool_runner, wall", "s", f"{stored}.wall", f"{other}.wall",
            stored_wall),
        row(f"{stored_too}, wall", "s", f"{stored}.wall", f"{ours}.wall", None),
        row(f"{stored_too}, peak memory", "MB", f"{stored}.memory", f"{ours}.memory", 1.15),
    ]  # fmt: skip


def _figure(  # noqa: PLR0913, PLR0917 - the figures differ in these
    name: str,
    title: str,
    count: Callable[[Size], int],
    wall: float,
    stored_wall: float | None,
    laps: Callable[[Size], int],
) -> Figure:
    lines = partial(rows, name=name, count=count, wall=wall, stored_wall=stored_wall)
    return Figure(name, title, partial(lap, name=name, count=count), lines, laps)


CHILDREN = _figure("children", "Many children at once", lambda size: size.children, 0.4, None, lambda size: size.laps)
CROWD = _figure(
    "crowd", "Very many children at once", lambda size: size.crowd, 0.25, 0.45, lambda size: size.crowd_laps
)

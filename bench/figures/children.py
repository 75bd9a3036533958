"""Many concurrent children, in one process and with one client."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from bench.figures.figure import Figure, Size
from bench.figures.row import Row
from bench.lab import Lab

CALLS = 10
DELAY = 20
"""Response time of the model per turn [ms]."""
PEERS = {
    "tool_runner": "tool_runner",
    "bare_aio": "a hand-written loop on aiohttp",
    "bytes_aio": "a loop that posts ready bytes with aiohttp",
}


def lap(lab: Lab, size: Size, name: str, count: Callable[[Size], int]) -> None:
    """Measure each peer once."""
    for peer in lab.in_turn("ours", "ours_stored", *PEERS):
        with lab.failing(f"{name}.{peer}"):
            run = lab.new_run()
            measured = lab.lap(peer, "children", run, children=count(size), calls=CALLS, delay=DELAY, seconds=900)
            for kind in ("wall", "cpu", "memory"):
                lab.note(f"{name}.{peer}.{kind}", measured[kind])


def rows(size: Size, name: str, count: Callable[[Size], int], walls: Mapping[str, float]) -> Sequence[Row]:
    """Return the lines of the table.

    walls: Maximum ratio of the wall time to that of each peer; "stored" = of stored runs to that of `tool_runner`.
    """
    what = f"{count(size):,} children x {CALLS} calls"
    row = partial(Row, full=size.full, of_ratio=True)
    ours, other, stored = (f"{name}.{peer}" for peer in ("ours", "tool_runner", "ours_stored"))
    stored_too = f"{what}, with store and events, against without"
    return [
        *(row(f"{what}, against {label}, wall", "s", f"{ours}.wall", f"{name}.{peer}.wall", walls.get(peer))
          for peer, label in PEERS.items()),
        row(f"{what}, against tool_runner, CPU", "s", f"{ours}.cpu", f"{other}.cpu", None),
        row(f"{what}, against tool_runner, peak memory", "MB", f"{ours}.memory", f"{other}.memory", 1.0),
        row(f"{what}, with store and events, against tool_runner, wall", "s", f"{stored}.wall", f"{other}.wall",
            walls.get("stored")),
        row(f"{stored_too}, wall", "s", f"{stored}.wall", f"{ours}.wall", None),
        row(f"{stored_too}, peak memory", "MB", f"{stored}.memory", f"{ours}.memory", 1.15),
    ]  # fmt: skip


def _figure(
    name: str,
    title: str,
    count: Callable[[Size], int],
    walls: Mapping[str, float],
    laps: Callable[[Size], int],
) -> Figure:
    lines = partial(rows, name=name, count=count, walls=walls)
    return Figure(name, title, partial(lap, name=name, count=count), lines, laps)


CHILDREN = _figure(
    "children",
    "Many children at once",
    lambda size: size.children,
    {"bare_aio": 0.7, "tool_runner": 0.33, "bytes_aio": 3.0},
    lambda size: size.laps,
)
CROWD = _figure(
    "crowd",
    "Very many children at once",
    lambda size: size.crowd,
    {"bare_aio": 0.5, "tool_runner": 0.2, "stored": 0.4},
    lambda size: size.crowd_laps,
)

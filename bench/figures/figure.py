"""A figure of the benchmark: what one lap of it measures, and the rows that show it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bench import warming
from bench.figures.row import Row
from bench.lab import Lab


@dataclass(frozen=True, slots=True)
class Size:
    """How much is measured."""

    full: bool
    """Whether the targets were set for these sizes."""
    laps: int
    crowd_laps: int
    """Laps of the largest figure, which takes minutes."""
    calls: tuple[int, int] = (30, 300)
    """Tool calls in a run."""
    children: int = 200
    crowd: int = 1000
    notes: int = 10_000
    guests: tuple[str, ...] = ()
    """Peers beside the usual ones."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One thing that is measured."""

    name: str
    title: str
    lap: Callable[[Lab, Size], None]
    rows: Callable[[Size], Sequence[Row]]
    laps: Callable[[Size], int] = lambda size: size.laps
    warm_up: Callable[[Lab], None] = warming.peers

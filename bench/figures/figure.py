"""Definition of a figure of the benchmark: the measurements of one lap and the table rows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bench import warming
from bench.figures.row import Row
from bench.lab import Lab


@dataclass(frozen=True, slots=True)
class Size:
    """Sizes of the measurements."""

    full: bool
    """Whether the targets apply to these sizes."""
    laps: int
    crowd_laps: int
    """Laps of the largest figure, which takes minutes per lap."""
    calls: tuple[int, int] = (30, 300)
    """Tool calls per run."""
    children: int = 200
    crowd: int = 1000
    notes: int = 10_000
    guests: tuple[str, ...] = ()
    """Optional peers to measure."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure of the benchmark."""

    name: str
    title: str
    lap: Callable[[Lab, Size], None]
    rows: Callable[[Size], Sequence[Row]]
    laps: Callable[[Size], int] = lambda size: size.laps
    warm_up: Callable[[Lab], None] = warming.peers

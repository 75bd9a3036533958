"""Ranked search over many notes: the first query, which indexes them all, and later queries."""

from collections.abc import Sequence

from bench.figures.figure import Figure, Size
from bench.figures.row import Row
from bench.lab import Lab
from bench.notes import NOTE_SIZE, SEAL

QUERIES = 11


def lap(lab: Lab, size: Size) -> None:
    """Measure consecutive searches of one run."""
    with lab.failing("search"):
        folder, words = lab.notes(size.notes)
        asks = ",".join([*words[: QUERIES - 1], SEAL])
        measured = lab.lap("ours_searching", "search", lab.new_run(), folder=str(folder), asks=asks, queries=QUERIES)
        lab.note("search.first.wall", measured["wall"][0])
        lab.note("search.first.cpu", measured["cpu"][0])
        for took in measured["wall"][1:]:
            lab.note("search.next.wall", took)
        lab.note("search.memory", measured["memory"])


def rows(size: Size) -> Sequence[Row]:
    """Return the lines of the table."""
    what = f"`search` over {size.notes:,} notes, {size.notes * NOTE_SIZE / 1e6:.0f} MB"
    return [
        Row(f"{what}, the first query, wall", "s", "search.first.wall", at_most=3, full=size.full),
        Row(f"{what}, the first query, CPU", "s", "search.first.cpu"),
        Row(f"{what}, each later query, wall", "ms", "search.next.wall", at_most=50, full=size.full),
        Row(f"{what}, peak memory of the process", "MB", "search.memory"),
    ]


FIGURE = Figure("search", "Search in notes", lap, rows)

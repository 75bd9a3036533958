"""CPU time of the client per tool call, in a short and in a long run."""

from collections.abc import Sequence

from bench.figures.figure import Figure, Size
from bench.figures.row import Row
from bench.lab import Lab


def lap(lab: Lab, size: Size) -> None:
    """Measure each peer once, with all its runs in one process."""
    for peer in lab.in_turn("ours", "tool_runner", "bare", "ours_stored", *size.guests):
        with lab.failing(f"calls.{peer}"):
            measured = lab.lap(peer, "calls", lab.new_run(), calls=size.calls)
            for run in measured["runs"]:
                lab.note(f"calls.{peer}.{run['calls']}", run["cpu"] / run["calls"])


def rows(size: Size) -> Sequence[Row]:
    """Return the lines of the table."""
    made = []
    for number in size.calls:
        ours = f"calls.ours.{number}"
        what = f"CPU per call, {number} calls"
        made += [
            Row(f"{what}, against tool_runner", "ms", ours, f"calls.tool_runner.{number}", 0.75, of_ratio=True,
                full=size.full),
            Row(f"{what}, against a hand-written loop", "ms", ours, f"calls.bare.{number}"),
            Row(f"{what}, with store and events, against without", "ms", f"calls.ours_stored.{number}", ours),
            *(Row(f"{what}, against {guest}", "ms", ours, f"calls.{guest}.{number}") for guest in size.guests),
        ]  # fmt: skip
    return made


FIGURE = Figure("calls", "A tool call, one per turn", lap, rows)

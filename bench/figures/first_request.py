"""Time from the start of a process until the server receives its first request."""

from collections.abc import Sequence

from bench import warming
from bench.figures.figure import Figure, Size
from bench.figures.row import Row
from bench.given import MODEL, QUESTION
from bench.lab import Lab
from bench.server.script import Script

WAYS = {
    "cli": "`run-specialist`, no store, against tool_runner",
    "ours": "from Python, no store, against tool_runner",
    "cli_stored": "`run-specialist`, with store and events, against without",
    "ours_stored": "from Python, with store and events, against without",
}
AGAINST = {"cli": "tool_runner", "ours": "tool_runner", "cli_stored": "cli", "ours_stored": "ours"}
MOST = {"cli": 1.0, "ours": 1.0, "cli_stored": 1.15, "ours_stored": 1.15}


def lap(lab: Lab, size: Size) -> None:  # noqa: ARG001 - the signature of all figures
    """Measure each way once."""
    for way in lab.in_turn("tool_runner", *WAYS):
        with lab.failing(f"first.{way}"):
            run = lab.new_run()
            if way.startswith("cli"):
                more = ("--events",) if way == "cli_stored" else ("--store", "none")
                question = f"{Script(run).tag()} {QUESTION}"
                lab.command("run-specialist", "thoughts-analyzer", question, "--model", MODEL, *more, run=run)
            else:
                lab.lap(way, "first", run)
            tally = lab.tally(run)
            lab.note(f"first.{way}.wall", tally.first_wall)
            if tally.first_cpu is not None:
                lab.note(f"first.{way}.cpu", tally.first_cpu)


def rows(size: Size) -> Sequence[Row]:
    """Return the lines of the table."""
    return [
        Row(f"{label}, {kind}", "ms", f"first.{way}.{unit}", f"first.{AGAINST[way]}.{unit}", MOST[way], of_ratio=True,
            full=size.full)
        for way, label in WAYS.items()
        for unit, kind in (("cpu", "CPU"), ("wall", "wall"))
    ]  # fmt: skip


FIGURE = Figure("first", "From the start of the process to the first request", lap, rows, warm_up=warming.everything)

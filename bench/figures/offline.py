"""CPU time of the README's question without an API key, from a cold start."""

from collections.abc import Sequence

from bench import warming
from bench.figures.figure import Figure, Size
from bench.figures.row import Row
from bench.lab import Lab

COMMAND = (
    "run-specialist",
    "thoughts-analyzer",
    "Why does the sub-agent loop land softly instead of cutting off?",
    "--model",
    "offline",
)


def lap(lab: Lab, size: Size) -> None:  # noqa: ARG001 - the signature of all figures
    """Run the question without a store, with a new store, and with an existing one."""
    with lab.failing("offline.none"):
        lab.note("offline.none", lab.command(*COMMAND, "--store", "none").cpu)
    with lab.failing("offline.stored"):
        home = lab.folder()
        lab.note("offline.stored.made", lab.command(*COMMAND, home=home).cpu)
        lab.note("offline.stored.there", lab.command(*COMMAND, home=home).cpu)


def rows(size: Size) -> Sequence[Row]:
    """Return the lines of the table."""
    kinds = {
        "none": "no store",
        "stored.there": "the existing default store",
        "stored.made": "a new default store",
    }
    return [
        Row(f"README's question, {label}, CPU", "ms", f"offline.{kind}", at_most=450, full=size.full)
        for kind, label in kinds.items()
    ]


FIGURE = Figure("offline", "An answer without a model, from a cold start", lap, rows, warm_up=warming.offline)

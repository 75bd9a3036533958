"""What the README's question costs without a key, from a cold start."""

from collections.abc import Sequence

from bench import warming
from bench.figures.figure import Figure, Size
from bench.figures.row import Row
from bench.lab import Lab

ASKED = (
    "run-specialist",
    "thoughts-analyzer",
    "Why does the sub-agent loop land softly instead of cutting off?",
    "--model",
    "offline",
)


def lap(lab: Lab, size: Size) -> None:  # noqa: ARG001 - as all figures
    """Ask without a store, with one that has to be made, and with one that is there."""
    with lab.failing("offline.none"):
        lab.note("offline.none", lab.command(*ASKED, "--store", "none").cpu)
    with lab.failing("offline.stored"):
        home = lab.folder()
        lab.note("offline.stored.made", lab.command(*ASKED, home=home).cpu)
        lab.note("offline.stored.there", lab.command(*ASKED, home=home).cpu)


def rows(size: Size) -> Sequence[Row]:
    """Return the lines of the table."""
    kinds = {
        "none": "no store",
        "stored.there": "the default store",
        "stored.made": "the default store, made for it",
    }
    return [
        Row(f"README's question, {words}, CPU", "ms", f"offline.{kind}", at_most=600, full=size.full)
        for kind, words in kinds.items()
    ]


FIGURE = Figure("offline", "An answer without a model, from a cold start", lap, rows, warm_up=warming.offline)

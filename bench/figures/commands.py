"""CPU time of commands that use no model."""

from collections.abc import Sequence

from bench import warming
from bench.figures.figure import Figure, Size
from bench.figures.row import Row
from bench.lab import Lab

HEAVY = {"anthropic", "openai", "sqlalchemy", "mcp"}
"""Libraries that these commands must not import."""
COMMANDS = {
    "help": ("run-specialist", "--help"),
    "list": ("specialists", "list"),
}


def lap(lab: Lab, size: Size) -> None:  # noqa: ARG001 - the signature of all figures
    """Run each command once, and check its imports in the first lap."""
    for name, command in COMMANDS.items():
        with lab.failing(f"commands.{name}"):
            lab.note(f"commands.{name}.cpu", lab.command(*command).cpu)
            if not lab.has(f"commands.{name}.heavy"):
                loaded = lab.imported(*command)
                lab.note(f"commands.{name}.heavy", len(HEAVY & {module.partition(".")[0] for module in loaded}))


def rows(size: Size) -> Sequence[Row]:
    """Return the lines of the table."""
    heavy = f"imports of {', '.join(sorted(HEAVY))}"
    return [
        Row("`run-specialist --help`, CPU", "ms", "commands.help.cpu", at_most=100, full=size.full),
        Row(f"`run-specialist --help`, {heavy}", "", "commands.help.heavy", at_most=0),
        Row("`specialists list`, CPU", "ms", "commands.list.cpu", at_most=250, full=size.full),
        Row(f"`specialists list`, {heavy}", "", "commands.list.heavy", at_most=0),
    ]


FIGURE = Figure("commands", "Commands that use no model", lap, rows, warm_up=warming.commands)

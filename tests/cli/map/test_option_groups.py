"""Commands whose options are grouped in dataclasses."""

from dataclasses import dataclass
from typing import Annotated

import typer
from typer.testing import CliRunner

from run_specialist.cli.help import GroupedCommand, grouped


@dataclass(frozen=True)
class Colours:
    """Colours of owls."""

    wings: Annotated[str | None, typer.Option("--wings", "-w", help="Of the wings.")] = None


def test_each_group_is_a_section_of_the_help_text():
    """The first line of a dataclass is its heading; what has no group comes last."""

    def paint(name: Annotated[str, typer.Argument(help="Its name.")], colours: Colours) -> None:
        """Paint an owl."""

    app = typer.Typer(rich_markup_mode=None)
    app.command(cls=GroupedCommand)(grouped(paint))
    shown = CliRunner().invoke(app, ["--help"]).stdout
    headings = [line.rstrip(":") for line in shown.splitlines() if line.endswith(":") and not line.startswith(" ")]
    assert headings == ["Arguments", "Colours of owls", "Other options"]
    assert "-w, --wings" in shown.split("Colours of owls:\n")[1].split("\n\n")[0]

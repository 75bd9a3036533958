"""The command `specialists map NAME ITEMS`."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from run_specialist.cli.console import fail, guarded
from run_specialist.cli.flags import SpecialistName
from run_specialist.cli.from_config import config_for_run
from run_specialist.cli.map_options import (
    AnswerOptions,
    BatchOptions,
    EachRunOptions,
    ItemOptions,
    MoneyOptions,
    ProjectOptions,
)
from run_specialist.cli.option_groups import grouped

if TYPE_CHECKING:
    from run_specialist.api.runner import Runner

Items = Annotated[
    str | None,
    typer.Argument(
        metavar="ITEMS",
        show_default=False,
        help="File with the items: JSON lines, CSV with a header, or one text per line; `-` stands for standard input.",
    ),
]


@grouped
def map_(  # noqa: D417 - typer's context and the groups of options speak for themselves
    context: typer.Context,
    name: SpecialistName,
    items: Items = None,
    *,
    each_item: ItemOptions,
    answers: AnswerOptions,
    money: MoneyOptions,
    batch: BatchOptions,
    each_run: EachRunOptions,
    project: ProjectOptions,
) -> None:
    """Ask a specialist a question about each of many items.

    The same command again goes on where it stopped: what has an answer is not asked again, and a changed item is a new
    one. Ctrl-C finishes the turns under way, a second Ctrl-C stops at once; both lose nothing that was paid.

    Exit codes: 0 each item has an answer, 2 wrong flag or file, 3 ended by the model's endpoint, 4 an item has no
    answer, 130 interrupted.
    """
    raise typer.Exit(0)

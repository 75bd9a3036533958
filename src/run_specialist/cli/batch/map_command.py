"""The command `specialists map NAME ITEMS`."""

from typing import Annotated

import typer

from run_specialist.cli.batch.map_options import AnswerOptions, BatchMoneyOptions, BatchOptions, ItemOptions
from run_specialist.cli.batch.shared_options import EachRunOptions, ProjectOptions
from run_specialist.cli.console import guarded
from run_specialist.cli.flags import SpecialistName
from run_specialist.cli.from_config import config_for_run
from run_specialist.cli.option_groups import given_words, grouped

Items = Annotated[
    str | None,
    typer.Argument(
        metavar="ITEMS",
        show_default=False,
        help="File with the items: JSON lines, a JSON array, CSV with a header, or one text per line; `-` means "
        "standard input.",
    ),
]


@grouped
def map_(
    context: typer.Context,
    name: SpecialistName,
    items: Items = None,
    *,
    each_item: ItemOptions,
    answers: AnswerOptions,
    money: BatchMoneyOptions,
    batch: BatchOptions,
    each_run: EachRunOptions,
    project: ProjectOptions,
) -> None:
    """Ask a specialist a question about each of many items.

    Repeat the same command to continue a batch: items that have an outcome are skipped, and a changed item counts as
    new. Ctrl-C stops after the current turns, a second Ctrl-C stops immediately. Results that were paid for are kept.

    Exit codes: 0 every item has an answer, 2 wrong flag or file, 3 the model's endpoint ended the batch, 4 an item has
    no answer, 130 interrupted.
    """
    answers.check()
    with guarded():
        config = config_for_run(project.root, each_run.model, trust=project.trust, quiet=answers.quiet)
        from run_specialist.cli.batch.map_call import MapCall  # noqa: PLC0415 - fast `--help`

        words, at_once = given_words(context), _fleet_at_once(context, batch)
        call = MapCall(name, items, each_item, answers, money, batch, each_run, project, config, words, at_once)
        code = call.work()
    raise typer.Exit(code)


def _fleet_at_once(context: typer.Context, batch: BatchOptions) -> int:
    """Return the value of `--at-once` for a fleet; 0 = any number of items at the same time, if it was not given."""
    source = context.get_parameter_source("at_once")
    return batch.at_once if source is not None and source.name == "COMMANDLINE" else 0

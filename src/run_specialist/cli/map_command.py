"""The command `specialists map NAME ITEMS`."""

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from run_specialist.cli.console import fail, guarded, is_terminal, print_json, say
from run_specialist.cli.flags import SpecialistName
from run_specialist.cli.from_config import config_for_run
from run_specialist.cli.map_options import (
    RETRIED,
    AnswerOptions,
    BatchOptions,
    EachRunOptions,
    ItemOptions,
    MoneyOptions,
    ProjectOptions,
)
from run_specialist.cli.option_groups import given_words, grouped
from run_specialist.cli.output_file import STDOUT

if TYPE_CHECKING:
    from run_specialist.api.runner import Runner
    from run_specialist.config.config import Config

Items = Annotated[
    str | None,
    typer.Argument(
        metavar="ITEMS",
        show_default=False,
        help="File with the items: JSON lines, a JSON array, CSV with a header, or one text per line; `-` stands for "
        "standard input.",
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

    The same command again continues where it stopped: items with an outcome are not asked again, and a changed item is
    a new one. Ctrl-C finishes the turns under way, a second Ctrl-C stops at once; nothing that was paid is lost.

    Exit codes: 0 each item has an answer, 2 wrong flag or file, 3 ended by the model's endpoint, 4 an item has no
    answer, 130 interrupted.
    """
    answers.check()
    with guarded():
        config = config_for_run(project.root, each_run.model, trust=project.trust, quiet=answers.quiet)
        from run_specialist.batch.checking import check  # noqa: PLC0415 - fast `--help`
        from run_specialist.batch.question import Template  # noqa: PLC0415 - as above
        from run_specialist.cli.map_items import source  # noqa: PLC0415 - as above

        runner = _runner(each_run, project, config)
        template = None if each_item.question is None else Template(each_item.question)
        checked = check(source(items, each_item, runner, name), template)
        made = runner.map(
            name,
            checked,
            question=each_item.question,
            at_once=batch.at_once,
            cost_limit=money.cost_limit,
            batch=batch.batch,
            retry=RETRIED[batch.retry],
            pause_limit=batch.pause_limit,
            **each_run.settings,
        )
        call = MapCall(name, runner, checked, template, made, SameCall(given_words(context)))
        if batch.dry_run:
            show_dry_run(call, answers, money, batch)
            return
        confirm(call, money, batch)
        code = call.answer(answers, reduce)
    raise typer.Exit(code)

"""The command `specialists map NAME ITEMS`."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from run_specialist.cli.batch.map_options import (
    RETRIED,
    AnswerOptions,
    BatchOptions,
    EachRunOptions,
    ItemOptions,
    MoneyOptions,
    ProjectOptions,
)
from run_specialist.cli.console import guarded, say
from run_specialist.cli.flags import SpecialistName
from run_specialist.cli.from_config import config_for_run
from run_specialist.cli.option_groups import given_words, grouped

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
def map_(
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
        from run_specialist.cli.batch.map_confirm import confirm  # noqa: PLC0415 - fast `--help`
        from run_specialist.cli.batch.map_items import Asked  # noqa: PLC0415 - as above
        from run_specialist.cli.batch.map_planning import planned  # noqa: PLC0415 - as above
        from run_specialist.cli.batch.map_queue import check_queue, put_into_queue  # noqa: PLC0415 - as above
        from run_specialist.cli.batch.map_reduce import Reducer  # noqa: PLC0415 - as above
        from run_specialist.cli.batch.map_summary import SameCall  # noqa: PLC0415 - as above
        from run_specialist.cli.batch.map_work import Work  # noqa: PLC0415 - as above

        make_runner = partial(_runner, each_run, project, config)
        runner = make_runner(project.root)
        check_queue(batch, items)
        asked = Asked.of(items, each_item, runner, name)
        reducer = None if answers.reduce is None else Reducer(runner.registry.find(answers.reduce), make_runner)
        make_plan = partial(planned, asked, runner, each_run, _bounds(money, batch))
        plan = make_plan(RETRIED[batch.retry])
        if batch.dry_run:
            plan.show(json=answers.json_)
            return
        if not answers.quiet:
            say(str(plan))
        confirm(plan.most if plan.forecast.runs else None, money)
        if batch.queue:
            followed = put_into_queue(plan, runner, each_run, batch, answers, _fleet_at_once(context, batch))
            if followed is None:
                return
            # The fleet has worked on the items: what is left is to read their answers.
            plan = make_plan(RETRIED[None], is_over=True)
            if followed.lost:
                again = f"`specialists fleet retry {plan.batch.id}`, then the same command"
                plan.batch.only_read(f"the fleet has left items without an outcome, {followed.lost}; {again}")
        code = Work(plan, runner, answers, SameCall(given_words(context)), reducer).work()
    raise typer.Exit(code)


def _runner(each_run: EachRunOptions, project: ProjectOptions, config: "Config", root: Path | None) -> "Runner":
    """Return a runner for the specialists of the project.

    root: the folder that the file tools can read.
    """
    from run_specialist.api.runner import Runner  # noqa: PLC0415 - fast `--help`

    return Runner(
        root=root,
        dir=project.dir_ or config.get("dir"),
        model=each_run.model,
        strict=bool(config.get("strict") if project.strict is None else project.strict),
        store=project.store,
        on_lost=project.on_lost,
        trust=project.trust,
        require_model=each_run.require_model or None,
        requests_at_once=each_run.requests_at_once,
        defaults=config.defaults,
    )


def _fleet_at_once(context: typer.Context, batch: BatchOptions) -> int:
    """Return how many items a fleet may work on at the same time; 0 = any number, unless it was given."""
    source = context.get_parameter_source("at_once")
    return batch.at_once if source is not None and source.name == "COMMANDLINE" else 0


def _bounds(money: MoneyOptions, batch: BatchOptions) -> dict[str, Any]:
    """Return what bounds the batch, as arguments of `Runner.map`."""
    limit = {} if money.limit is None else {"cost_limit": money.limit}
    return {"at_once": batch.at_once, **limit, **batch.bounds}

"""The command `specialists map`."""

from typing import Annotated

import typer

from run_specialist.cli import batch_options, flags
from run_specialist.cli.console import guarded
from run_specialist.cli.help import everyday, grouped

_ITEMS = (
    "File with the items: JSON lines, a JSON array, CSV with a header, or one text per line; `-` means standard input."
)


@everyday(
    "question files out reduce dry_run cost_limit at_once retry model tool_calls_limit trust json_",
    "specialists map error-tracer messages.txt --out causes.csv",
    "specialists map fact-checker --files 'docs/*.md' --question 'Check {path}'",
)
@grouped
def map_(
    context: typer.Context,
    name: flags.SpecialistName,
    items: Annotated[str | None, typer.Argument(metavar="ITEMS", show_default=False, help=_ITEMS)] = None,
    *,
    options: batch_options.MapOptions,
    each_run: batch_options.EachRunOptions,
    project: flags.ProjectOptions,
) -> None:
    """Ask a specialist a question about each of many items.

    Repeat the same command to continue a batch: items that have an outcome are skipped, and a changed item counts as
    new. Ctrl-C stops after the current turns, a second Ctrl-C stops immediately. Results that were paid for are kept.

    Exit codes: 0 every item has an answer, 2 wrong flag or file, 3 the model's endpoint ended the batch, 4 an item has
    no answer, 130 interrupted.
    """
    options.check()
    with guarded():
        from run_specialist.cli.map_run import MapCall  # noqa: PLC0415 - fast `--help`

        code = MapCall(context, name, items, options, each_run, project).work()
    raise typer.Exit(code)

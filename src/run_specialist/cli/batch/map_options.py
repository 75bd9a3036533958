"""The options of `specialists map`, by groups."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from run_specialist.batch.breaker import FAILURES
from run_specialist.cli.batch.option_values import choice, duration
from run_specialist.cli.batch.shared_options import (
    AT_ONCE,
    MoneyOptions,
    at_once_option,
    confirm_above_option,
    cost_limit_option,
)
from run_specialist.cli.console import fail
from run_specialist.cli.flags import quiet_option
from run_specialist.cli.output_file import STDOUT

FORMATS = ("jsonl", "csv", "lines")
RETRIED: dict[str | None, tuple[str, ...]] = {
    None: (),
    "aborted": ("aborted",),
    "failed": ("failed", "aborted"),
    "partial": ("partial", "aborted"),
    "all": ("failed", "aborted", "partial"),
}
"""Statuses of earlier runs to resume, by `--retry`; interrupted runs and endpoint failures are always resumed."""


@dataclass(frozen=True)
class ItemOptions:
    """Items."""

    question: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT",
            help="Question about each item, with its fields in braces, or {item} if it is a text.  [default: the item, "
            "or its field `question`]",
        ),
    ] = None
    files: Annotated[
        str | None,
        typer.Option(
            metavar="GLOB",
            help="Instead of ITEMS: each matching file is an item with the fields {path}, {name} and {stem}.",
        ),
    ] = None
    format_: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="Format of ITEMS: jsonl, csv or lines.  [default: by its name]",
            **choice(*FORMATS),
        ),
    ] = None


@dataclass(frozen=True)
class BatchOptions:
    """Batch."""

    at_once: Annotated[
        int,
        at_once_option("Maximum number of items under way; given with --queue, that of the whole fleet."),
    ] = AT_ONCE
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the first questions and the forecast; send nothing.")
    ] = False
    retry: Annotated[
        str | None,
        typer.Option(
            metavar="STATE",
            help="Resume earlier runs that ended as failed, aborted or partial, or all of these.",
            **choice(*filter(None, RETRIED)),
        ),
    ] = None
    batch: Annotated[
        str | None,
        typer.Option(
            metavar="ID",
            help="Continue this batch.  [default: the batch of the same specialist, question, settings and ITEMS]",
        ),
    ] = None
    queue: Annotated[
        bool, typer.Option("--queue", help="Put the items into the queue of a fleet instead, for workers on any hosts.")
    ] = False
    wait: Annotated[bool, typer.Option("--wait", help="With --queue: wait until the fleet has finished all items.")] = (
        False
    )
    priority: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=-1000,
            max=1000,
            help="With --queue: batches with a higher number are worked on first; equal ones share the fleet.  "
            "[default: 0, or that of the earlier call]",
        ),
    ] = None
    breaker: Annotated[
        int,
        typer.Option(metavar="N", min=1, help="Pause after N consecutive failures of the endpoint of the same kind."),
    ] = FAILURES
    pause_limit: Annotated[
        Any,
        typer.Option(
            metavar="TIME",
            parser=duration,
            help="How long the batch waits for an endpoint that refuses requests.  [default: 1h]",
        ),
    ] = None

    @property
    def bounds(self) -> dict[str, Any]:
        """Return the limits of the batch that were given, as arguments of `Runner.map`."""
        given = {"batch": self.batch, "breaker": self.breaker, "pause_limit": self.pause_limit}
        return {name: value for name, value in given.items() if value is not None}


@dataclass(frozen=True)
class BatchMoneyOptions(MoneyOptions):
    """Cost."""

    cost_limit: Annotated[float | None, cost_limit_option("all items together")] = None
    confirm_above: Annotated[float | None, confirm_above_option("a batch")] = None


@dataclass(frozen=True)
class AnswerOptions:
    """Answers."""

    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE",
            help="Write a row per item to FILE: JSON lines, or CSV if its name ends in .csv; `-` for standard output.",
        ),
    ] = None
    ordered: Annotated[bool, typer.Option("--ordered", help="Write the rows in the order of the items.")] = False
    reduce: Annotated[
        str | None,
        typer.Option(
            metavar="SPECIALIST", help="Then ask this specialist to combine the answers, which it reads as files."
        ),
    ] = None
    json_: Annotated[bool, typer.Option("--json", help="Print the summary as one JSON object.")] = False
    events: Annotated[
        bool,
        typer.Option("--events", help="Print each event as one line of JSON, those of the runs with their `item`."),
    ] = False
    quiet: Annotated[bool, quiet_option("Print only rows, JSON and errors.")] = False

    def check(self) -> None:
        """Exit if options exclude each other."""
        if self.json_ and self.events:
            fail("--json and --events cannot be combined; the last event of --events contains the counts")
        if self.out == STDOUT and (self.json_ or self.events):
            fail("--out - writes rows to standard output; it cannot be combined with --json or --events")

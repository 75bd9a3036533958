"""Options of `specialists map` and `specialists eval`."""

import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer

from run_specialist.batch.limits import FAILURES
from run_specialist.budget import dollars
from run_specialist.cli import flags
from run_specialist.cli.console import STDOUT, fail, is_terminal, say_allowed
from run_specialist.cli.help import flag, option

if TYPE_CHECKING:
    from run_specialist.api.config_files import Config
    from run_specialist.api.runner import Runner


def amount(text: str) -> float:
    """Parse an amount of dollars; `none` is infinity."""
    with suppress(ValueError):
        value = float("inf") if text == "none" else float(text)
        if value >= 0 and (text == "none" or value < float("inf")):
            return value
    raise typer.BadParameter(f"{text!r} is not an amount of dollars; expected e.g. 2.50")


AT_ONCE = 8
"""Default number of runs at the same time."""
CONFIRM_ABOVE = 1.0
"""Forecast above which the command asks for confirmation [USD]."""


@dataclass(frozen=True)
class MoneyOptions:
    """Cost."""

    cost_limit: float | None = option(
        "USD|none", "Maximum cost of all runs together; includes earlier ones.  [default: none]", parser=amount
    )
    confirm_above: float | None = option(
        "USD",
        "Ask before runs that may cost more together; without a terminal, refuse them.  "
        f"[default: {CONFIRM_ABOVE:.2f} on a terminal]",
        parser=amount,
    )
    yes: bool = flag("Do not ask.", "-y")

    @property
    def limit(self) -> float | None:
        """The cost limit of all runs together; None = no limit [USD]."""
        return None if self.cost_limit == float("inf") else self.cost_limit

    def confirm(self, most: float | None) -> None:
        """Ask for confirmation if the forecast exceeds the amount of `--confirm-above`; exit if it is denied.

        most: maximum cost of the runs; None = unknown [USD].
        Without a terminal there is no question: the runs are refused if `--confirm-above` was given and is exceeded.
        """
        above = CONFIRM_ABOVE if self.confirm_above is None else self.confirm_above
        if self.yes or most is None or most <= above:
            return
        if is_terminal(sys.stdin) and is_terminal(sys.stderr):
            if not typer.confirm(f"This may cost {dollars(most)}. Continue?", err=True):
                fail("nothing was sent", 0)
        elif self.confirm_above is not None:
            fail(
                f"this may cost {dollars(most)}, more than --confirm-above {dollars(above)}; nothing was sent: add "
                "--yes, set a --cost-limit, or raise it"
            )


@dataclass(frozen=True)
class EachRunOptions(flags.HowOptions, flags.RunLimitOptions, flags.ModelOptions):
    """Each run."""


def batch_runner(config: "Config", project: flags.ProjectOptions, each_run: EachRunOptions, *, quiet: bool) -> "Runner":
    """Return a runner for many runs of the project's specialists.

    quiet: do not print what `--trust` allows.
    """
    of_model = {key: getattr(each_run, key) for key in vars(flags.ModelOptions())}
    runner = flags.configured_runner(config, **vars(project), **of_model)
    runner.allowed = None if quiet else say_allowed
    return runner


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

    question: str | None = option(
        "TEXT",
        "Question about each item, with its {fields}; {item} if it is a text.  [default: the item, or its field "
        "`question`]",
    )
    files: str | None = option(
        "GLOB", "Each matching file is an item; instead of ITEMS, with the fields {path}, {name} and {stem}."
    )
    format_: Literal["jsonl", "csv", "lines"] | None = option(
        "FORMAT", "Format of ITEMS: jsonl, csv or lines.  [default: by its name]"
    )


@dataclass(frozen=True)
class AnswerOptions:
    """Answers."""

    out: Path | None = option(
        "FILE",
        "Write a row per item to FILE: JSON lines, or CSV if its name ends in .csv; `-` for standard output.",
        "-o",
    )
    ordered: bool = flag("Write the rows in the order of the items.")
    reduce: str | None = option("SPECIALIST", "Then ask this one to combine the answers; it reads them as files.")
    reduce_question: str | None = option("TEXT", "The question for --reduce.")
    json_: bool = flag("Print the summary as one JSON object.")
    events: bool = flag("Print each event as one line of JSON, those of the runs with their `item`.")
    quiet: bool = flags.quiet_option("Print only rows, JSON and errors.")

    def check(self) -> None:
        """Exit if options exclude each other."""
        if self.json_ and self.events:
            fail("--json and --events cannot be combined; the last event of --events contains the counts")
        if self.reduce_question is not None and (self.reduce is None or not self.reduce_question.strip()):
            fail("--reduce-question is a question to the specialist of --reduce SPECIALIST")
        if self.out == STDOUT and (self.json_ or self.events):
            fail("--out - writes rows to standard output; it cannot be combined with --json or --events")


@dataclass(frozen=True)
class MapOptions(MoneyOptions, AnswerOptions, ItemOptions):
    """Batch.

    With those of its bases, all options of `specialists map` but those of its runs and of the project.
    """

    at_once: int = option(
        "N", "Maximum number of items under way; given with --queue, that of the whole fleet.", default=AT_ONCE, min=1
    )
    dry_run: bool = flag("Show the first questions and the forecast; send nothing.")
    retry: Literal["aborted", "failed", "partial", "all"] | None = option(
        "STATE", "Resume earlier runs that ended in this state: failed, aborted, partial or all."
    )
    batch: str | None = option(
        "ID", "Continue this batch.  [default: the batch of the same specialist, question, settings and ITEMS]"
    )
    queue: bool = flag("Put the items into the queue of a fleet instead, for workers on any hosts.")
    wait: bool = flag("With --queue: wait until the fleet has finished all items.")
    priority: int | None = option(
        "N",
        "With --queue: batches with a higher number are worked on first; equal ones share the fleet.  "
        "[default: 0, or that of the earlier call]",
        min=-1000,
        max=1000,
    )
    breaker: int = option(
        "N", "Pause after N consecutive failures of the endpoint of the same kind.", default=FAILURES, min=1
    )
    pause_limit: str | None = option(
        "TIME",
        "How long the batch waits for an endpoint that refuses requests.  [default: 1h]",
        callback=lambda text: flags.check_key("time_limit", text),
    )

    @property
    def bounds(self) -> dict[str, Any]:
        """The limits of the batch, as arguments of `Runner.map`."""
        from run_specialist.specialist.settings import checked  # noqa: PLC0415 - fast `--help`

        given = {"at_once": self.at_once, "breaker": self.breaker, "batch": self.batch, "cost_limit": self.limit}
        if self.pause_limit is None:
            return given
        seconds = checked({"time_limit": flags.setting(self.pause_limit)}).time_limit
        return given | {"pause_limit": float("inf") if seconds is None else seconds}


@dataclass(frozen=True)
class CaseOptions:
    """Cases."""

    cases: Path | None = option("FILE", "File with the cases.  [default: NAME.evals.yaml beside the specialist]")
    case: list[str] | None = option("GLOB", "Only cases whose name matches; may be repeated.")
    new: bool = flag("Write a first set of cases from stored runs; run nothing.")
    schema: bool = flag("Print the JSON Schema of files with cases; run nothing.")
    repeat: int = option("N", "Number of runs of each case with each variant.", default=1, min=1)
    fresh: bool = flag("Repeat all runs; reuse none that is stored.")


@dataclass(frozen=True)
class VariantOptions:
    """Variants."""

    vary: list[str] | None = option(
        "KEY=VALUE,...",
        "Run the cases with each value of a key; e.g. model=haiku,sonnet; repeated, with all combinations.",
    )
    file: list[Path] | None = option("FILE", "Another specialist file to run the cases with; may be repeated.")


@dataclass(frozen=True)
class ResultOptions:
    """Results."""

    min_score: float | None = option("SHARE", "Exit with code 1 if a variant scores less; from 0 to 1.", min=0, max=1)
    json_: bool = flag("Print the results as one JSON object.")
    quiet: bool = flags.quiet_option("Print only the results and errors.")


@dataclass(frozen=True)
class ComparisonOptions:
    """Comparison."""

    baseline: str | None = option(
        "REF|EVAL|FILE",
        "Compare with another version: a commit, an earlier eval, an .md file, or the .json of --json.",
    )
    tolerance: float = option(
        "SCORE", "With --baseline, exit with code 1 only if the score drops by more.", default=0.0, min=0, max=1
    )
    page: Path | None = option("FILE", "Write all cases, differences and costs as HTML.")
    with_reports: bool = flag("With --page, write the report of each run into a folder beside it.")
    junit: Path | None = option("FILE", "Write the results as JUnit XML, which CI systems show.")


@dataclass(frozen=True)
class EvalOptions(MoneyOptions, ResultOptions, ComparisonOptions, VariantOptions, CaseOptions):
    """Work.

    With those of its bases, all options of `specialists eval` but those of its runs and of the project.
    """

    at_once: int = option("N", "Maximum number of runs under way.", default=AT_ONCE, min=1)
    dry_run: bool = flag("Show what would be run and the forecast; send nothing.")
    judge_model: str | None = option("MODEL", "Model of the judges.  [default: that of their file or the environment]")

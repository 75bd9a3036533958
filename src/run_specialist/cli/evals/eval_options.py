"""The options of `specialists eval`, by groups."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from run_specialist.cli.batch.shared_options import (
    AT_ONCE,
    MoneyOptions,
    at_once_option,
    confirm_above_option,
    cost_limit_option,
)
from run_specialist.cli.flags import quiet_option


@dataclass(frozen=True)
class CaseOptions:
    """Cases."""

    cases: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="File with the cases.  [default: NAME.evals.yaml beside the specialist]"),
    ] = None
    case: Annotated[
        list[str] | None,
        typer.Option(metavar="GLOB", help="Only cases whose name matches; may be repeated."),
    ] = None
    new: Annotated[
        bool, typer.Option("--new", help="Write a first set of cases from stored runs, to be edited; run nothing.")
    ] = False
    schema: Annotated[
        bool, typer.Option("--schema", help="Print the JSON Schema of files with cases; run nothing.")
    ] = False
    repeat: Annotated[int, typer.Option(metavar="N", min=1, help="Number of runs of each case with each variant.")] = 1
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Repeat all runs instead of reusing stored runs of the same questions.")
    ] = False


@dataclass(frozen=True)
class VariantOptions:
    """Variants."""

    vary: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE,...",
            help="Run the cases with each value of a key, e.g. model=haiku,sonnet; repeated, with all combinations.",
        ),
    ] = None
    file: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Another specialist file to run the cases with; may be repeated."),
    ] = None


@dataclass(frozen=True)
class ResultOptions:
    """Results."""

    min_score: Annotated[
        float | None,
        typer.Option(metavar="SHARE", min=0, max=1, help="Exit with code 1 if a variant scores less, from 0 to 1."),
    ] = None
    json_: Annotated[bool, typer.Option("--json", help="Print the results as one JSON object.")] = False
    quiet: Annotated[bool, quiet_option("Print only the results and errors.")] = False


@dataclass(frozen=True)
class EvalMoneyOptions(MoneyOptions):
    """Cost."""

    cost_limit: Annotated[float | None, cost_limit_option("the eval, including judges and reused runs")] = None
    confirm_above: Annotated[float | None, confirm_above_option("an eval")] = None


@dataclass(frozen=True)
class WorkOptions:
    """Work."""

    at_once: Annotated[int, at_once_option("Maximum number of runs under way.")] = AT_ONCE
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be run and the forecast; send nothing.")
    ] = False
    judge_model: Annotated[
        str | None,
        typer.Option(metavar="MODEL", help="Model of the judges.  [default: that of their file or the environment]"),
    ] = None

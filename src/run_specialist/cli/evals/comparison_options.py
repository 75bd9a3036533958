"""The options of `specialists eval` that compare variants, and write the comparison to files."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer


@dataclass(frozen=True)
class ComparisonOptions:
    """Comparison."""

    baseline: Annotated[
        str | None,
        typer.Option(
            metavar="REF|EVAL|FILE",
            help="Compare with the file at a commit, an earlier eval, another .md file, or the .json of --json.",
        ),
    ] = None
    tolerance: Annotated[
        float,
        typer.Option(
            metavar="SCORE", min=0, max=1, help="With --baseline, exit with code 1 only if the score drops by more."
        ),
    ] = 0.0
    page: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a page with all cases, differences and costs as HTML.")
    ] = None
    with_reports: Annotated[
        bool, typer.Option("--with-reports", help="With --page, write the report of each run into a folder beside it.")
    ] = False
    junit: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the results as JUnit XML, which CI systems show.")
    ] = None

"""The output options of `run-specialist` and `specialists resume`."""

from dataclasses import dataclass
from typing import Annotated

import typer

from run_specialist.cli.console import fail
from run_specialist.cli.flags import quiet_option
from run_specialist.cli.output_file import OutputFile, OutputOption


@dataclass(frozen=True)
class OutputSettings:
    """What to print, and where."""

    json: bool
    events: bool
    quiet: bool
    raw: bool
    file: OutputFile


@dataclass(frozen=True)
class OutputOptions:
    """Output."""

    json_: Annotated[bool, typer.Option("--json", help="Print the outcome as one JSON object.")] = False
    events: Annotated[bool, typer.Option("--events", help="Print each event as one line of JSON.")] = False
    output: OutputOption = None
    quiet: Annotated[bool, quiet_option("Print only the answer and errors.")] = False
    raw: Annotated[bool, typer.Option("--raw", help="Print the answer as it is, on a terminal too.")] = False

    def chosen(self) -> OutputSettings:
        """Return the chosen output; exit if options exclude each other, or if the file cannot be written."""
        if self.json_ and self.events:
            fail("--json and --events cannot be combined; the last event of --events contains the outcome")
        if self.raw and (self.json_ or self.events):
            fail("--raw is about the answer as text; it cannot be combined with --json or --events")
        return OutputSettings(self.json_, self.events, self.quiet, self.raw, OutputFile(self.output))

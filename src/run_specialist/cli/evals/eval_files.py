"""`specialists eval --new` and `--schema`: write a first set of cases, print the schema of their files."""

from pathlib import Path
from typing import TYPE_CHECKING

from run_specialist.cli.console import print_json, print_line, say
from run_specialist.cli.evals.extra import check_extra
from run_specialist.cli.printed_files import relative
from run_specialist.evals.finding import place_of_cases
from run_specialist.evals.new_cases import new_cases, write_new
from run_specialist.evals.past_evals import stored_runs

if TYPE_CHECKING:
    from run_specialist.api.runner import Runner


def print_schema() -> None:
    """Print the JSON Schema of files with cases."""
    check_extra()
    from run_specialist.evals.case_schema import case_schema  # noqa: PLC0415 - heavy

    print_json(case_schema())


def write_cases(name: str, given: Path | None, runner: "Runner") -> None:
    """Write the cases of a specialist from its stored runs.

    given: the file to write; None = beside the specialist's file.
    Raises UsageError if the file exists, or if there are no runs.
    """
    from run_specialist.specialist.project import project_path  # noqa: PLC0415 - fast `--help`

    file = runner.registry.find(name)
    path = given or place_of_cases(file)
    with stored_runs(runner.store) as known:
        write_new(path, new_cases(file.name, known.questions(file.name, project_path(runner.root))))
    print_line(str(relative(path)))
    say(f"read and edit the cases, then run: specialists eval {name}")

"""Find the cases of a specialist beside its file."""

from collections.abc import Callable
from pathlib import Path

from run_specialist.errors import UsageError
from run_specialist.evals.case import EvalSet
from run_specialist.evals.case_file import load_cases
from run_specialist.specialist.loader import SpecialistFile, stem

ENDINGS = (".evals.yaml", ".evals.yml")


def cases_of(file: SpecialistFile, check_judge: Callable[[str], None], given: Path | None = None) -> EvalSet:
    """Return the cases of a specialist.

    check_judge: must raise UsageError if the judge with this name cannot be asked.
    given: file of the cases; None = the default place.
    Raises UsageError if there is no such file, or for each of its errors.
    """
    if given is not None:
        return load_cases(given, check_judge)
    names = [file.path.with_name(f"{stem(file.path)}{ending}") for ending in ENDINGS]
    found = next((one for one in names if one.is_file()), None)
    if found is None:
        raise UsageError(
            f"{file.path}:1:1: {file.name} has no cases; expected {names[0].name} beside it, or "
            f"`specialists eval {file.name} --new` to begin with questions of past runs"
        )
    return load_cases(found, check_judge)


def place_of_cases(file: SpecialistFile) -> Path:
    """Return the path for a new file with cases."""
    return file.path.with_name(f"{stem(file.path)}{ENDINGS[0]}")

"""Find the cases of a specialist: beside its file, or in the folder of an agent skill."""

from collections.abc import Callable
from pathlib import Path

from run_specialist.errors import UsageError
from run_specialist.evals.agent_skills_cases import load_skill_cases
from run_specialist.evals.case import EvalSet
from run_specialist.evals.case_file import load_cases
from run_specialist.specialist.loader import SpecialistFile, stem

ENDINGS = (".evals.yaml", ".evals.yml")
SKILL_CASES = Path("evals") / "evals.json"
"""Path of the cases relative to the specialist's file, by the convention of agent skills."""


def cases_of(file: SpecialistFile, check_judge: Callable[[str], None], given: Path | None = None) -> EvalSet:
    """Return the cases of a specialist.

    check_judge: must raise UsageError if the judge with this name cannot be asked.
    given: file of the cases; None = the default place.
    Raises UsageError if there is no such file, or for each of its errors.
    """
    if given is not None:
        return _load(given, check_judge)
    names = [file.path.with_name(f"{stem(file.path)}{ending}") for ending in ENDINGS]
    found = next((one for one in (*names, file.path.parent / SKILL_CASES) if one.is_file()), None)
    if found is None:
        raise UsageError(
            f"{file.path}:1:1: {file.name} has no cases; expected {names[0].name} beside it, or "
            f"`specialists eval {file.name} --new` to begin with questions of past runs"
        )
    return _load(found, check_judge)


def place_of_cases(file: SpecialistFile) -> Path:
    """Return the path for a new file with cases."""
    return file.path.with_name(f"{stem(file.path)}{ENDINGS[0]}")


def _load(path: Path, check_judge: Callable[[str], None]) -> EvalSet:
    return (load_skill_cases if path.suffix == ".json" else load_cases)(path, check_judge)

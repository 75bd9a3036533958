"""Find judges: specialists of the project, otherwise those included in the package for evals."""

from pathlib import Path

from run_specialist.errors import SpecialistNotFound
from run_specialist.specialist.loader import SpecialistFile, load
from run_specialist.specialist.registry import Registry

FOLDER = Path(__file__).parent / "judges"
"""Not one of the folders of specialists, so that no agent is offered a judge."""


def find_judge(registry: Registry, name: str) -> SpecialistFile:
    """Return a judge by its name or path; raises SpecialistNotFound."""
    try:
        return registry.find(name)
    except SpecialistNotFound:
        along = FOLDER / f"{name}.md"
        if "/" in name or not along.is_file():
            raise
        return load(along)

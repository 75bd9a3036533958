"""Restore the specialist of a stored run, as it was when the run began."""

from pathlib import Path

from run_specialist.errors import NotResumable
from run_specialist.specialist.fields import Specialist
from run_specialist.specialist.loader import SpecialistFile, load
from run_specialist.specialist.project import project_of
from run_specialist.store.stored import StoredRun


def models_left(run: StoredRun) -> tuple[str, ...]:
    """Return the model of a stored run, and its remaining fallbacks."""
    known = [str(one) for one in run.frozen.get("models", ())]
    following = known[known.index(run.model) + 1 :] if run.model in known else []
    return (run.model, *following)


def begun_with(run: StoredRun, file: Path | None = None, root: Path | None = None) -> tuple[SpecialistFile, Specialist]:
    """Return the file and the settings with which a run began.

    file, root: the specialist's file and the folder with which the run continues; None = the original ones.
    """
    # Settings from another version of this program may have keys that this version does not know.
    settings = Specialist.model_validate(run.frozen["settings"], extra="ignore")
    if isinstance(settings.output_schema, str):
        # A run stores the schema itself; the path of one could lead to any file.
        raise NotResumable(f"{run.run_id}: its stored output_schema is not a schema")
    # The others are defaults, which follow from the model that the run is resumed with.
    settings.model_fields_set.intersection_update(run.frozen.get("given", settings.model_fields_set))
    path = file or Path(run.frozen["file"])
    current = load(path, project_of(path, [root or Path(run.frozen["root"])])) if settings.mcp_servers else None
    if current and current.specialist and current.digest == run.frozen["digest"]:
        # Values that may be secret, such as headers of MCP servers, are masked in the store: take them from the file.
        settings = settings.model_copy(update={"mcp_servers": current.specialist.mcp_servers})
    return SpecialistFile(path, settings.name, settings.description, specialist=settings), settings

"""Find the folder in which a stored run continues: the one it began in, or one on another machine."""

import os
from dataclasses import dataclass
from pathlib import Path

from run_specialist.errors import NotResumable, SpecialistNotFound
from run_specialist.spawning.origin import digest, digests
from run_specialist.specialist.loader import SpecialistFile
from run_specialist.specialist.problems import shown
from run_specialist.specialist.registry import Registry
from run_specialist.store.stored import StoredRun


@dataclass(frozen=True)
class ResumePlace:
    """The folder and the specialist's file with which a run continues."""

    root: Path
    file: Path

    def warnings(self, run: StoredRun) -> tuple[str, ...]:
        """Return a warning if the run began in another folder."""
        begun = run.frozen["root"]
        is_same = os.path.realpath(begun) == os.path.realpath(self.root)
        return () if is_same else (f"the run began in {begun} and continues in {self.root}",)


def place_of(run: StoredRun, root: Path, registry: Registry, *, force: bool = False) -> ResumePlace:
    """Return where a run continues: in its original folder, or in `root` if that folder does not exist here.

    root: the folder that the caller named, or the current project; others may have written to the store, so the run
        cannot choose a folder outside of it.
    registry: where the specialist is looked up by its name, if its file is not where it was.
    force: accept a specialist with another content.
    Raises NotResumable for another folder, and if the specialist found here is not the same.
    """
    begun = ResumePlace(Path(run.frozen["root"]), Path(run.frozen.get("file", "")))
    has_root, content = begun.root.is_dir(), run.frozen.get("digest", "")
    if has_root and not Path(os.path.realpath(begun.root)).is_relative_to(os.path.realpath(root)):
        where = shown(str(begun.root), None)
        raise NotResumable(
            f"{run.run_id} began in {where}, which is not in the current project; to let it read the files there, add "
            f"`root={where}`"
        )
    if has_root and (not content or digest(begun.file) == content):
        return begun
    found, why = _found(run.specialist, registry) if content else (None, "")
    if found is not None and found.digest == content:
        return ResumePlace(begun.root if has_root else root, found.path)
    if has_root:
        return begun
    if found is not None and force:
        return ResumePlace(root, found.path)
    if found is not None:
        why = f", and {found.path} is another specialist: {digests(content, found.digest)}"
    raise NotResumable(f"{run.run_id}: its working folder {begun.root} no longer exists{why}")


def _found(name: str, registry: Registry) -> tuple[SpecialistFile | None, str]:
    try:
        return registry.find(name), ""
    except SpecialistNotFound as error:
        return None, f"; to continue in another one, its specialist must be there: {error}"

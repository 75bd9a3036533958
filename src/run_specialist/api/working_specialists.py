"""The specialists of a runner that can work here, and why the others cannot."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from run_specialist.errors import NothingToRead
from run_specialist.spawning.availability import ModelObstacle, alternatives, obstacles
from run_specialist.specialist.loader import SpecialistFile
from run_specialist.specialist.registry import Registry
from run_specialist.tools.threads import in_thread


class WorkingSpecialists:
    """Looks at the folder and the models of a runner; nothing is cached, because folders come and go."""

    def __init__(self, registry: Registry, root: Path, of_model: ModelObstacle) -> None:
        """Set where to look.

        root: the folder that the file tools can read.
        """
        self._registry = registry
        self._root = root
        self._of_model = of_model

    def files(self) -> list[SpecialistFile]:
        """Return the specialists that can work here; blocks, for a second at most."""
        files = [file for file in self._registry.nearest() if file.specialist]
        unavailable = self.unavailable(files)
        return [file for file in files if file.path not in unavailable]

    def unavailable(self, files: Iterable[SpecialistFile]) -> Mapping[Path, str]:
        """Return why specialists cannot work here, in one clause, by the path of their file; blocks as `files` does.

        Those that can work here are left out, and those whose file has errors.
        """
        return obstacles(files, self._root, self._of_model)

    async def with_alternatives(self, error: NothingToRead, file: SpecialistFile, question: str) -> NothingToRead:
        """Return the error that a specialist has nothing to read, with the specialists that can be asked instead."""
        instead = alternatives(file, question, await in_thread(self.files))
        return NothingToRead(f"{error}; {instead}") if instead else error

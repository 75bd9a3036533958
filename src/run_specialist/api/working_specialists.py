"""Find the specialists of a runner that can work here, and the reasons why others cannot."""

from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path

from run_specialist.api.model_choice import ModelChoice
from run_specialist.errors import NothingToRead
from run_specialist.spawning.availability import alternatives, obstacles
from run_specialist.specialist.loader import SpecialistFile
from run_specialist.specialist.problems import shown
from run_specialist.specialist.registry import Registry
from run_specialist.tools.threads import in_thread


class WorkingSpecialists:
    """Checks the folder and the models of a runner; nothing is cached, because folders change."""

    def __init__(self, registry: Registry, root: Path, models: ModelChoice) -> None:
        """Set what to check.

        root: the folder that the file tools can read.
        """
        self._registry = registry
        self._root = root
        self._models = models

    def unavailable(self, files: Iterable[SpecialistFile], model: str | None = None) -> Mapping[Path, str]:
        """Return why specialists cannot work here, in one clause, by the path of their file.

        model: the model of the call; None = that of the runner, of the file or of the environment.
        Omits specialists that can work here, and those whose file has errors. Blocks for at most a second.
        """
        return obstacles(files, self._root, partial(self._models.obstacle, asked=model))

    def check_models(self, files: Iterable[SpecialistFile]) -> None:
        """Raise UsageError if models are required and none of these specialists has one."""
        self._models.check_any([file.specialist for file in files if file.specialist])

    def offline_note(self, files: Iterable[SpecialistFile]) -> str:
        """Return which of these specialists are answered offline, why, and how to get a model; empty if none is."""
        reasons = {file.name: self._models.why_offline(file.specialist) for file in files if file.specialist}
        offline = [name for name, why in reasons.items() if why]
        if not offline:
            return ""
        whose = "" if len(offline) == len(reasons) else f" of {', '.join(map(shown, offline))}"
        made = "made offline, by ranked search and verbatim quotes"
        return f"no model judges the answers{whose}: they are {made}, because {reasons[offline[0]]}"

    async def with_alternatives(self, error: NothingToRead, file: SpecialistFile, question: str) -> NothingToRead:
        """Return the error that a specialist has nothing to read, extended by specialists that can be asked instead."""
        # The registry is not thread-safe.
        files = [one for one in self._registry.nearest() if one.specialist]
        unavailable = await in_thread(partial(self.unavailable, files))
        instead = alternatives(file, question, [one for one in files if one.path not in unavailable])
        return NothingToRead(f"{error}; {instead}") if instead else error

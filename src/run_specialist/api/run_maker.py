"""Makes the runs of a `Runner`: new ones, resumed ones, and those of children."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from run_specialist.api.model_choice import ModelChoice
from run_specialist.api.project_files import file_of
from run_specialist.api.query import question_of
from run_specialist.api.run_environments import RunEnvironments
from run_specialist.api.run_store import RunStore
from run_specialist.api.working_specialists import WorkingSpecialists
from run_specialist.errors import NothingToRead, UsageError
from run_specialist.loop.job import Job
from run_specialist.loop.run import Run
from run_specialist.providers.base import Provider, Watch
from run_specialist.record.events import Listener
from run_specialist.record.journal import Journal
from run_specialist.spawning.begun_with import begun_with
from run_specialist.spawning.resume_place import ResumePlace, place_of
from run_specialist.spawning.resuming import ResumeRequest, resume
from run_specialist.spawning.run_environment import Parent
from run_specialist.spawning.spawner import spawn
from run_specialist.specialist.fields import Specialist
from run_specialist.specialist.loader import SpecialistFile, load
from run_specialist.specialist.project import project_of
from run_specialist.specialist.registry import Registry
from run_specialist.specialist.resolve import resolve
from run_specialist.store.known_run import KnownRun
from run_specialist.store.stored import StoredRun


@dataclass(frozen=True)
class Watchers:
    """Who follows a run."""

    listener: Listener | None = None
    """Called with each event of the run, in order."""
    watch: Watch | None = None
    """Called with the pieces of a reply while it streams."""

    @classmethod
    def taken_from(cls, options: dict[str, Any]) -> Self:
        """Return the watchers of a call, and remove them from its options."""
        return cls(options.pop("listener", None), options.pop("watch", None))


@dataclass(frozen=True)
class Asked:
    """A question to a specialist, with its settings resolved."""

    file: SpecialistFile
    settings: Specialist
    question: str
    model: str | None
    """The model of the call; None for that of the `Runner`, of the file or of the environment."""
    by_program: bool
    """Whether the specialist is one of this program, which needs no trust."""
    watchers: Watchers


@dataclass(frozen=True)
class RunMaker:
    """Makes the runs of one `Runner`."""

    root: Path
    registry: Registry
    models: ModelChoice
    working: WorkingSpecialists
    environments: RunEnvironments
    store: RunStore
    strict: bool

    def asked(
        self, specialist: str | Path | Specialist, query: str | None, model: str | None, options: Mapping[str, Any]
    ) -> Asked:
        """Return the question of a call.

        options: `RunOptions`.
        Raises UsageError.
        """
        overrides = dict(options)
        question = question_of(query, overrides.pop("question", None))
        watchers = Watchers.taken_from(overrides)
        if not self.root.is_dir():
            raise UsageError(f"`root`: {self.root} is not a folder")
        by_program = isinstance(specialist, Specialist)
        file = file_of(specialist) if isinstance(specialist, Specialist) else self.registry.find(str(specialist))
        overrides |= {} if model is None else {"model": model}
        settings = resolve(file, overrides, strict=self.strict).settings
        return Asked(file, settings, question, model, by_program, watchers)

    async def new(self, asked: Asked) -> Run:
        """Return a new run with an id of its own."""
        job = await self._job(asked)
        return self._run(job, asked.watchers, await self.store.journal(job.run_id))

    async def begin(self, asked: Asked, run_id: str) -> Run | KnownRun:
        """Return a new run with a given id, which is stored before this returns; or the stored run with this id."""
        job = replace(await self._job(asked), run_id=run_id)
        journal = await self.store.begin(job.opened())
        return journal if isinstance(journal, KnownRun) else self._run(job, asked.watchers, journal)

    async def _job(self, asked: Asked) -> Job:
        file, settings, by_program = asked.file, asked.settings, asked.by_program
        model = asked.model or self.models.model
        provider = await self.models.provider(file, settings, model, by_program=by_program)
        try:
            environment = await self.environments.make(self.root, file, settings, provider, None, by_program=by_program)
        except NothingToRead as error:
            raise await self.working.with_alternatives(error, file, asked.question) from None
        return spawn(file, settings, asked.question, environment)

    async def resume(
        self, run: StoredRun, request: ResumeRequest, watchers: Watchers, asked: Asked | None = None
    ) -> Run:
        """Return a stored run, ready to continue where it began; or in the root of this `Runner`, as it was asked here.

        asked: the question with which the run was taken up; None if it is resumed by its id alone.
        Raises NotResumable with the reason.
        """
        here = None if asked is None else ResumePlace(self.root, asked.file.path)
        place = here or place_of(run, self.root, self.registry, force=request.force)
        root, request = place.root, replace(request, file=place.file)
        file, settled = begun_with(run, place.file, root)
        parent = Parent(run.parent_id, root, tuple(run.frozen.get("parents", ()))) if run.parent_id else None
        by_program = asked is not None and asked.by_program
        current = asked.file if asked and by_program else load(file.path, project_of(file.path, [root]))
        provider = await self.models.provider_for_resumed(current, settled, root, run.model)
        environment = await self.environments.make(
            root, current, settled, provider, parent, resumed=True, by_program=by_program
        )
        job = resume(run, request, environment)
        job = replace(job, warnings=(*job.warnings, *place.warnings(run)))
        return self._run(job, watchers, await self.store.claim(run))

    async def child(  # noqa: PLR0913, PLR0917 - called in one place
        self,
        file: SpecialistFile,
        settings: Specialist,
        question: str,
        parent: Parent,
        provider: Provider,
        listener: Listener,
    ) -> Run:
        """Return a new child run."""
        environment = await self.environments.make(parent.root, file, settings, provider, parent)
        job = spawn(file, settings, question, environment)
        return self._run(job, Watchers(listener), await self.store.journal(job.run_id))

    def _run(self, job: Job, watchers: Watchers, journal: Journal | None) -> Run:
        return Run(job, watchers.listener, watchers.watch, journal=journal, on_lost=self.store.on_lost)

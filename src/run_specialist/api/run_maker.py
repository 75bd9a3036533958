"""Make the runs of a `Runner`: new ones, resumed ones, and those of children."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from run_specialist.api.children import Children
from run_specialist.api.model_choice import ModelChoice
from run_specialist.api.project_files import file_of
from run_specialist.api.query import question_of
from run_specialist.api.run_environments import RunEnvironments
from run_specialist.api.run_store import RunStore
from run_specialist.api.working_specialists import WorkingSpecialists
from run_specialist.batch.item_run import Lend
from run_specialist.errors import NothingToRead, UsageError
from run_specialist.loop.executed import Augmenter
from run_specialist.loop.job import Job
from run_specialist.loop.run import Run
from run_specialist.providers.base import Provider, Watch
from run_specialist.record.events import Listener
from run_specialist.record.journal import Journal
from run_specialist.spawning.begun_with import begun_with, models_left
from run_specialist.spawning.forking import ForkRequest, fork
from run_specialist.spawning.granted import granted, own_cost_left
from run_specialist.spawning.resume_place import ResumePlace, place_of
from run_specialist.spawning.resuming import ResumeRequest, resume
from run_specialist.spawning.run_environment import Parent, RunEnvironment
from run_specialist.spawning.spawner import spawn
from run_specialist.spawning.trust import Trust, origins_of_stored
from run_specialist.specialist.fields import Specialist
from run_specialist.specialist.loader import SpecialistFile, load
from run_specialist.specialist.model_list import model_settings
from run_specialist.specialist.origins import ValueOrigins
from run_specialist.specialist.project import project_of
from run_specialist.specialist.registry import Registry
from run_specialist.specialist.resolve import Data, resolve
from run_specialist.store.known_run import KnownRun
from run_specialist.store.stored import StoredRun
from run_specialist.tools.base import Tool
from run_specialist.tools.mcp.clients import McpClients

Equipment = tuple[Trust, McpClients, Sequence[Tool], Sequence[Augmenter], Sequence[str]]
"""Values shared by the runs of a runner, besides its files and models."""


@dataclass(frozen=True)
class Watchers:
    """The functions that receive the events and the streamed text of a run."""

    listener: Listener | None = None
    """Called with each event of the run, in order."""
    watch: Watch | None = None
    """Called with the pieces of a reply while it streams."""

    @classmethod
    def taken_from(cls, options: dict[str, Any]) -> Self:
        """Return the watchers of a call, and remove them from its options."""
        return cls(options.pop("listener", None), options.pop("watch", None))


@dataclass(frozen=True)
class RunRequest:
    """A question to a specialist, with its settings resolved."""

    file: SpecialistFile
    settings: Specialist
    question: str
    model: str | None
    """The model of the call; None for that of the `Runner`, of the file or of the environment."""
    origins: ValueOrigins
    """The origins of the settings, which decide about their powers."""
    watchers: Watchers
    capped: tuple[str, ...] = ()
    """Warnings about limits of a project that are not used, because those of the user are stricter."""
    lend: Lend | None = None
    """Returns the share of a common cost limit that the run may spend; None = there is no such limit."""


class RunMaker:
    """Makes the runs of one `Runner`."""

    def __init__(  # noqa: PLR0913 - made in one place
        self,
        root: Path,
        registry: Registry,
        models: ModelChoice,
        working: WorkingSpecialists,
        store: RunStore,
        *,
        strict: bool,
    ) -> None:
        """Take the parts of a runner; `equip` must follow before the first run."""
        self.root = root
        self.registry = registry
        self.models = models
        self.working = working
        self.store = store
        self.strict = strict
        self.environments: RunEnvironments

    def equip(self, max_depth: int, *parts: *Equipment, dry_run: bool = False) -> RunEnvironments:
        """Set and return the object that makes the environment of each run, children included.

        max_depth: levels of specialists below a run.
        parts: further fields of `RunEnvironments`.
        dry_run: whether the changes of files are collected in a patch.
        """
        children = Children(self.registry, self.root, self.models, self.child, max_depth, strict=self.strict)
        self.environments = RunEnvironments(self.registry, children, *parts, dry_run=dry_run)
        return self.environments

    def asked(
        self,
        specialist: str | Path | Specialist | SpecialistFile,
        query: str | None,
        model: str | None,
        options: Mapping[str, Any],
        data: Data | None = None,
    ) -> RunRequest:
        """Return the question of a call.

        options: `RunOptions`.
        data: settings that are not the caller's own.
        Raises UsageError for an invalid option.
        """
        overrides = dict(options)
        question = question_of(query, overrides.pop("question", None))
        watchers = Watchers.taken_from(overrides)
        if not self.root.is_dir():
            raise UsageError(f"`root`: {self.root} is not a folder")
        if isinstance(specialist, SpecialistFile):
            file = specialist
        else:
            file = file_of(specialist) if isinstance(specialist, Specialist) else self.registry.find(str(specialist))
        by_file = file.specialist.fallback_models if file.specialist else ()
        overrides |= model_settings(model, overrides, by_file)
        data = data and replace(data, models={*data.models, *self.models.allowed})
        resolved = resolve(file, overrides, strict=self.strict, data=data)
        settings = resolved.settings
        if model is not None:
            model = ",".join([str(settings.model), *settings.fallback_models])
        return RunRequest(file, settings, question, model, resolved.kinds, watchers, resolved.capped)

    async def new(self, asked: RunRequest) -> Run:
        """Return a new run with a new id."""
        job = await self._job(asked)
        return self._run(job, asked.watchers, await self.store.journal(job.run_id))

    async def begin(self, asked: RunRequest, run_id: str) -> Run | KnownRun:
        """Return a new run with a given id, which is stored before this returns; or the stored run with this id."""
        job = replace(await self._job(asked), run_id=run_id)
        journal = await self.store.begin(job.opened())
        return journal if isinstance(journal, KnownRun) else self._run(job, asked.watchers, journal)

    async def provider(self, asked: RunRequest) -> Provider:
        """Return the provider of a new run; raises UsageError if the run needs a language model and there is none."""
        model = asked.model or self.models.model
        return await self.models.provider(asked.file, asked.settings, model, asked.origins)

    async def _job(self, asked: RunRequest) -> Job:
        file, settings = asked.file, asked.settings
        provider = await self.provider(asked)
        try:
            environment = await self.environments.make(
                self.root, file, settings, provider, None, origins=asked.origins, capped=asked.capped
            )
        except NothingToRead as error:
            raise await self.working.with_alternatives(error, file, asked.question) from None
        return await _lent(spawn(file, settings, asked.question, environment), asked.lend)

    async def resume(
        self, run: StoredRun, request: ResumeRequest, watchers: Watchers, asked: RunRequest | None = None
    ) -> Run:
        """Return a stored run, ready to continue in the folder where it began, or in the root of this `Runner`.

        asked: the question given with the id; None if the run is resumed by its id alone.
        Raises NotResumable with the reason.
        """
        here = None if asked is None else ResumePlace(self.root, asked.file.path)
        place = here or place_of(run, self.root, self.registry, force=request.force)
        request = replace(request, file=place.file)
        environment = await self._as_stored(run, place, asked)
        job = await _lent(resume(run, request, environment), asked.lend if asked else None)
        job = replace(job, warnings=(*job.warnings, *place.warnings(run)))
        return self._run(job, watchers, await self.store.claim(run))

    async def fork(self, run: StoredRun, request: ForkRequest, watchers: Watchers, model: str | None) -> Run:
        """Return a new run, stored before this returns, that begins with the first turns of a stored one.

        model: the model of the call; None for that of the `Runner` or of the run.
        Raises NotResumable with the reason, StoreUnusable.
        """
        place = place_of(run, self.root, self.registry, force=request.resume.force)
        request = replace(request, resume=replace(request.resume, file=place.file))
        environment = await self._as_stored(run, place, None, model)
        made = fork(run, request, environment)
        job = replace(made.job, warnings=(*made.job.warnings, *place.warnings(run)))
        return self._run(job, watchers, await self.store.fork(job.opened(), made.copied, request.at))

    async def _as_stored(
        self, run: StoredRun, place: ResumePlace, asked: RunRequest | None, model: str | None = None
    ) -> RunEnvironment:
        """Return the environment in which a stored run continues.

        asked: the question given with the id; None if the run is resumed or forked by its id alone.
        """
        file, settled = begun_with(run, place.file, place.root)
        parent = Parent(run.parent_id, place.root, tuple(run.frozen.get("parents", ()))) if run.parent_id else None
        # Only the call has a file that was made in Python, or that came with a batch.
        is_given = asked is not None and asked.file.given_origin is not None
        current = asked.file if asked and is_given else load(file.path, project_of(file.path, [place.root]))
        origins = origins_of_stored(settled, current, None if asked is None else (asked.settings, asked.origins))
        provider = await self.models.provider_for_resumed(current, settled, place.root, models_left(run), model)
        was_dry = bool(run.frozen.get("dry_run"))
        return await self.environments.make(
            place.root, current, settled, provider, parent, resumed=True, origins=origins, was_dry=was_dry
        )

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


async def _lent(job: Job, lend: Lend | None) -> Job:
    share = None if lend is None else await lend(own_cost_left(job))
    return job if share is None else granted(job, share)

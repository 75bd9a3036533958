"""Make runs: new, resumed and forked ones, and stored ones by their ids."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from run_specialist.api.children import RunEnvironments
from run_specialist.api.config_files import DEFAULT_SPECIALIST, near
from run_specialist.budget import Kind
from run_specialist.errors import AtWork, NothingToRead, NotResumable, SpecialistNotFound, UsageError, errors_as
from run_specialist.loop.job import Job
from run_specialist.loop.run import EndedRun, Run
from run_specialist.providers.base import Provider, Watch
from run_specialist.record.events import Listener
from run_specialist.record.journal import Journal
from run_specialist.spawning.availability import best_first, model_obstacle, obstacles, only_reads
from run_specialist.spawning.resuming import ResumeRequest, begun_with, check_same, fork, models_left, place_of, resume
from run_specialist.spawning.spawner import Parent, check_price, spawn
from run_specialist.spawning.trust import RunContext, origins_of_stored
from run_specialist.specialist.checks import model_settings
from run_specialist.specialist.dialects import is_path
from run_specialist.specialist.fields import Specialist
from run_specialist.specialist.loader import Default, SpecialistFile, load
from run_specialist.specialist.origins import ValueOrigins
from run_specialist.specialist.problems import shown
from run_specialist.specialist.project import is_same, project_of, project_path
from run_specialist.specialist.settings import Data, resolve
from run_specialist.store.location import LAST
from run_specialist.store.rows import KnownRun
from run_specialist.store.stored import StoredRun
from run_specialist.tools.threads import in_thread

if TYPE_CHECKING:  # only batches need the rest of the module
    from run_specialist.batch.item import Lend

# Called with each event of a run, in order, and with the pieces of a reply while it streams.
_Watchers = tuple[Listener | None, Watch | None]


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
    watchers: _Watchers
    capped: tuple[str, ...] = ()
    """Warnings about limits of a project that are not used, because those of the user are stricter."""
    lend: "Lend | None" = None
    """Returns the share of a common cost limit that the run may spend; None = there is no such limit."""


class RunMaker:
    """Makes the runs of one `Runner`, and checks which specialists can work in its folder.

    Nothing is cached, because folders change.
    """

    def __init__(self, environments: RunEnvironments) -> None:
        self.environments = environments
        self.root, self.registry = environments.root, environments.registry
        self.models, self.store = environments.models, environments.store

    def asked(
        self,
        specialist: str | Path | Specialist | SpecialistFile,
        query: str | None,
        options: Mapping[str, Any],
        data: Data | None = None,
    ) -> RunRequest:
        """Return the question of a call.

        options: `RunOptions`.
        data: settings that are not the caller's own.
        Raises UsageError for an invalid option.
        """
        overrides = dict(options)
        model = overrides.pop("model", None)
        question = question_of(query, overrides.pop("question", None))
        if question is None:
            raise UsageError("the question is missing; pass it as `query`")
        watchers = overrides.pop("listener", None), overrides.pop("watch", None)
        if not self.root.is_dir():
            raise UsageError(f"`root`: {self.root} is not a folder")
        if isinstance(specialist, Specialist):
            # Its file need not exist.
            path, name = specialist.path or Path(f"<{specialist.name}>"), specialist.name
            file = SpecialistFile(path, name, specialist.description, specialist=specialist, given_origin="caller")
        else:
            file = specialist if isinstance(specialist, SpecialistFile) else self.registry.find(str(specialist))
        by_file = file.specialist.fallback_models if file.specialist else ()
        overrides |= model_settings(model, overrides, by_file)
        data = data and replace(data, models={*data.models, *self.models.allowed})
        resolved = resolve(file, overrides, strict=self.environments.strict, data=data)
        settings = resolved.settings
        if model is not None:
            model = ",".join([str(settings.model), *settings.fallback_models])
        return RunRequest(file, settings, question, model, resolved.kinds, watchers, resolved.capped)

    async def begin(self, asked: RunRequest, run_id: str | None = None) -> Run:
        """Return a new run.

        run_id: an id of the caller, with which the run is stored before this returns; None for a new one.
        Raises AtWork if a process works on a run with this id, UsageError if one is stored.
        """
        if run_id is None:
            job = await self._job(asked)
            return self._run(job, asked.watchers, await self.store.journal(job.run_id))
        run = await self._begun(asked, checked_id(run_id))
        if isinstance(run, Run):
            return run
        await self._refuse_if_at_work(run)
        raise UsageError(f"run_id: {run_id} is stored already; use another id, or take it up with Runner.take_up")

    async def take_up(
        self, asked: RunRequest, run_id: str, retry: Sequence[str] = (), *, force: bool = False, is_new: bool = False
    ) -> Run | EndedRun:
        """Begin the run with this id, resume it, or return it with its stored outcome.

        retry: statuses of ended runs that are resumed.
        force: resume even if the specialist's file or the settings have changed.
        is_new: the run was not stored a moment ago, so it is begun without looking it up.
        Raises AtWork if another process works on the run, UsageError if it is another run, NotResumable with the
        reason.
        """
        statuses, run_id = checked_statuses(retry), checked_id(run_id)
        if asked.lend is not None:
            check_price(await self.provider(asked))
        known = None if is_new else await self.store.look(run_id)
        for attempt in range(ATTEMPTS):
            if known is None:
                run = await self._begun(asked, run_id)
                if isinstance(run, Run):
                    return run
                known = run
            check_same(known, asked.file, asked.settings, asked.question, force=force)
            if known.ended is not None and known.ended.status not in statuses:
                return EndedRun(known.ended)
            await self._refuse_if_at_work(known)
            try:
                stored = await self.store.load(run_id, "")
                if stored.run_id != run_id:
                    raise NotResumable(f"{run_id} was deleted")
                return await self.resume(stored, ResumeRequest(force=force), asked.watchers, asked)
            except AtWork:
                if attempt == ATTEMPTS - 1:
                    raise
            # Another process was faster; it may even have ended the run.
            known = await self.store.look(run_id)
        raise AtWork(f"{run_id} is repeatedly created and deleted by other processes")

    async def _begun(self, asked: RunRequest, run_id: str) -> Run | KnownRun:
        """Return a new run that is stored with this id, or the run with this id that is stored already."""
        job = replace(await self._job(asked), run_id=run_id)
        journal = await self.store.begin(job.opened())
        return journal if isinstance(journal, KnownRun) else self._run(job, asked.watchers, journal)

    async def _refuse_if_at_work(self, known: KnownRun) -> None:
        if known.is_running and (worker := await self.store.worker_of(known)):
            raise AtWork(f"{known.run_id} is being worked on: {worker}; wait until it has ended, or stop it there")

    async def provider(self, asked: RunRequest) -> Provider:
        """Return the provider of a new run; raises UsageError if the run needs a language model and there is none."""
        model = asked.model or self.models.model
        return await self.models.provider(asked.file, asked.settings, model, asked.origins)

    async def _job(self, asked: RunRequest) -> Job:
        file, environments = asked.file, self.environments
        context = RunContext(file, asked.settings, self.root, environments.trust, asked.origins)
        provider = await self.provider(asked)
        try:
            environment = await environments.make(context, provider, capped=asked.capped)
        except NothingToRead as error:
            # The registry is not thread-safe.
            files = [one for one in self.registry.nearest() if one.specialist]
            unavailable = await in_thread(partial(self.unavailable, files))
            others = [one.name for one in files if one.path not in unavailable and one.name != file.name]
            listed = ", ".join(others[:MOST_NAMED])
            raise NothingToRead(f"{error}; these work here: {listed}" if listed else str(error)) from None
        return await _lent(spawn(file, asked.settings, asked.question, environment), asked.lend)

    def unavailable(self, files: Iterable[SpecialistFile], model: str | None = None) -> Mapping[Path, str]:
        """Return why specialists cannot work here, in one clause, by the path of their file.

        model: the model of the call; None = that of the runner, of the file or of the environment.
        Omits specialists that can work here, and those whose file has errors. Blocks for at most a second.
        """
        return obstacles(files, self.root, partial(self.models.obstacle, asked=model))

    def usable(self) -> list[SpecialistFile]:
        """Return the specialists that can work here, nearest first; blocks for at most a second."""
        of_model = partial(model_obstacle, self.models.rule, default=self.models.default, asked=self.models.model)
        files = [one for one in self.registry.nearest() if one.status != "error"]
        unavailable = obstacles(files, self.root, of_model)
        return [one for one in files if one.path not in unavailable]

    def fitting(self, question: str, default: Default | None) -> list[str]:
        """Return the names of the specialists that may be asked without being named, best first.

        They can work here and only read; one that the user's own config file names may do more.
        default: the one of the config files, which is the first unless another description fits better.
        Raises UsageError if there is none, SpecialistNotFound if the default does not exist.
        """
        usable = self.usable()
        # A name that is a path would find another file.
        found = [one for one in usable if not is_path(one.name) and only_reads(one, self.root)]
        first = DEFAULT_SPECIALIST
        if default is not None:
            place = f"{near(default.path)}:{default.line}: default_specialist"
            with errors_as(SpecialistNotFound, place, SpecialistNotFound):
                named = self.registry.find(default.value)
            if named in usable and named not in found:
                if default.scope == "project":
                    raise UsageError(f"{place}: {shown(named.name)} does more than read; ask it by its name")
                found.append(named)
            first = named.name
        if not found:
            raise UsageError("no specialist can be asked without its name here; `specialists list` says why")
        return [one.name for one in best_first(question, found, first)]

    def offline_note(self, files: Iterable[SpecialistFile]) -> str:
        """Return which of these specialists are answered offline, why, and how to get a model; empty if none is."""
        reasons = {file.name: self.models.why_offline(file.specialist) for file in files if file.specialist}
        offline = [name for name, why in reasons.items() if why]
        if not offline:
            return ""
        whose = "" if len(offline) == len(reasons) else f" of {', '.join(map(shown, offline))}"
        made = "made offline, by ranked search and verbatim quotes"
        return f"no model judges the answers{whose}: they are {made}, because {reasons[offline[0]]}"

    async def continued(
        self, run_id: str, request: ResumeRequest, options: Mapping[str, Any], model: str | None = None
    ) -> Run:
        """Return a stored run, ready to continue, or a fork of it; see `Runner.resume` and `Runner.fork`.

        options: `ResumeOptions` or `ForkOptions`.
        """
        limits = dict(options)
        request = replace(request, question=question_of(request.question, limits.pop("question", None)))
        watchers = limits.pop("listener", None), limits.pop("watch", None)
        run = await self.store.load(run_id, project_path(self.root))
        return await self.resume(run, replace(request, limits=limits), watchers, model=model)

    async def resume(
        self,
        run: StoredRun,
        request: ResumeRequest,
        watchers: _Watchers,
        asked: RunRequest | None = None,
        model: str | None = None,
    ) -> Run:
        """Return a stored run, ready to continue in the folder where it began, or in the root of this `Runner`.

        With `request.at` it is a new run, stored before this returns, that begins with the first turns of the other.
        asked: the question given with the id; None if the run is resumed or forked by its id alone.
        model: the model of the call; None for that of the `Runner` or of the run.
        Raises NotResumable with the reason, StoreUnusable.
        """
        root, path = self.root, None if asked is None else asked.file.path
        if path is None:
            root, path = place_of(run, root, self.registry, force=request.force)
        request = replace(request, file=path)
        file, settled = begun_with(run, path, root)
        # Only the call has a file that was made in Python, or that came with a batch.
        is_given = asked is not None and asked.file.given_origin is not None
        current = asked.file if asked and is_given else load(file.path, project_of(file.path, [root]))
        origins = origins_of_stored(settled, current, None if asked is None else (asked.settings, asked.origins))
        provider = await self.models.provider_for_resumed(current, settled, root, models_left(run), model)
        context = RunContext(current, settled, root, self.environments.trust, origins, resumed=True)
        parent = Parent(run.parent_id, root, tuple(run.frozen.get("parents", ()))) if run.parent_id else None
        was_dry = bool(run.frozen.get("dry_run"))
        environment = await self.environments.make(context, provider, parent, was_dry=was_dry)
        begun, copied = run.frozen["root"], None
        if request.at is None:
            job = await _lent(resume(run, request, environment), asked.lend if asked else None)
        else:
            job, copied = fork(run, request, environment)
        if not is_same(Path(begun), root):
            job = replace(job, warnings=(*job.warnings, f"the run began in {begun} and continues in {root}"))
        if copied is None:
            return self._run(job, watchers, await self.store.claim(run))
        return self._run(job, watchers, await self.store.fork(job.opened(), copied, request.at or 0))

    def _run(self, job: Job, watchers: _Watchers, journal: Journal | None) -> Run:
        return Run(job, *watchers, journal=journal, on_lost=self.store.on_lost)


async def _lent(job: Job, lend: "Lend | None") -> Job:
    """Return a job that may spend only its share of a common cost limit."""
    limit, spent = job.budget[Kind.COST].limit, job.resume_state.snapshot.used.get(Kind.COST, 0.0)
    share = None if lend is None else await lend(None if limit is None else max(limit - spent, 0.0))
    # The limit counts down and lands like any other, but the system prompt has the same bytes in all runs.
    return job if share is None else replace(job, budget=job.budget.limited(spent + share, Kind.COST))


def question_of(query: str | None, question: str | None) -> str | None:
    """Return the question, given by either name; None if there is none.

    Raises UsageError if it is given twice, empty, or no string.
    """
    if query is not None and question is not None:
        raise UsageError("`query` and `question` are two names of one argument; pass only `query`")
    asked: object = question if query is None else query
    if not isinstance(asked, str | None):
        raise UsageError(f"query must be a string, got {type(asked).__name__}")
    if asked is not None and not asked.strip():
        raise UsageError("the question is empty; pass the question that the specialist should answer")
    return asked


MOST_NAMED = 3
"""Maximum number of specialists that an error names."""
# Maximum length of an id [characters].
_LONGEST_ID = 100
RETRIED = ("failed", "aborted", "partial")
"""Statuses of runs that can be resumed without a higher limit or a further question."""
ATTEMPTS = 3
"""Maximum number of attempts if other processes begin or resume the run between the look-up and the claim."""

_ID = re.compile(rf"[A-Za-z0-9._-]{{1,{_LONGEST_ID}}}")


def checked_id(run_id: str) -> str:
    """Return a valid id.

    Raises UsageError for an id that cannot name a run.
    """
    if not isinstance(run_id, str):
        raise UsageError(f"run_id must be a string, got {type(run_id).__name__}")
    if run_id == LAST or not _ID.fullmatch(run_id):
        raise UsageError(
            f"run_id: {shown(run_id)} cannot be the id of a run; use 1 to {_LONGEST_ID} letters, digits, `.`, `_` and "
            f"`-`, and not `{LAST}`"
        )
    return run_id


def checked_statuses(retry: Sequence[str]) -> frozenset[str]:
    """Return valid statuses of runs to resume.

    Raises UsageError for a status that needs a new limit or question.
    """
    statuses = frozenset([retry] if isinstance(retry, str) else retry)
    if unknown := sorted(map(str, statuses - {*RETRIED})):
        raise UsageError(f"retry: {shown(unknown[0])} is not one of {', '.join(RETRIED)}")
    return statuses

"""How a program gets in: `Runner`, for many questions."""

from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Self, get_args

from run_specialist.api.children import Children
from run_specialist.api.provider_pool import ProviderPool
from run_specialist.api.run_store import RunStore
from run_specialist.api.stream import Stream
from run_specialist.errors import UsageError
from run_specialist.loop.executed import Augmenter
from run_specialist.loop.run import Run
from run_specialist.providers.base import Provider, Watch
from run_specialist.providers.choose import choose_model
from run_specialist.record.events import Listener
from run_specialist.record.journal import OnLost
from run_specialist.record.outcome import Outcome
from run_specialist.redaction import passwords
from run_specialist.spawning.extra_tools import equip
from run_specialist.spawning.paths_check import check_paths
from run_specialist.spawning.resuming import ResumeRequest, begun_with, resume
from run_specialist.spawning.spawner import Parent, RunEnvironment, spawn
from run_specialist.spawning.trust import Trust
from run_specialist.specialist.agent_graph import MAX_DEPTH
from run_specialist.specialist.fields import Specialist
from run_specialist.specialist.loader import SpecialistFile, load
from run_specialist.specialist.registry import Registry, is_same, places, project_of, project_root
from run_specialist.specialist.resolve import resolve
from run_specialist.tools.base import Tool
from run_specialist.tools.decorator import given
from run_specialist.tools.mcp.clients import McpClients


class Runner:
    """Runs specialists; children of one model share a connection pool."""

    def __init__(  # noqa: PLR0913 - each is a word of its own, and all may be left out
        self,
        *,
        root: Path | str | None = None,
        dir: Path | str | None = None,  # noqa: A002 - the flag's name
        model: str | None = None,
        strict: bool = False,
        provider: Provider | None = None,
        tools: Sequence[Tool | Callable[..., Any]] = (),
        augmenters: Sequence[Augmenter] = (),
        store: Path | str | None = None,
        on_lost: OnLost = "go_on",
        trust: bool = False,
        max_depth: int = MAX_DEPTH,
        secrets: Sequence[str] = (),
    ) -> None:
        """Say where to look and what to use.

        root: what the file tools may see; None for the project root.
        dir: where specialist files are, before the usual places.
        model: an alias, a full id or `offline`; None for what the file or the environment says.
        provider: in place of one made for the model.
        tools: given to every child beside those that its file allows; functions become tools.
        augmenters: may add a line to each result, before the countdown.
        store: where runs are kept: a file, `sqlite:///FILE`, `postgresql://...`, or `none`; None for SPECIALIST_STORE,
            else a file in the user's data directory.
        on_lost: what becomes of a run whose store can no longer be written: `go_on` warns and goes on unstored,
            `abort` ends the run before its next request, and refuses to begin one where nothing can be stored.
        trust: let the files that are run start the commands and import the functions that they name, and remember it.
        max_depth: how many levels of specialists may ask one another below a run; 0 = none.
        secrets: credentials of the program, to be masked in every result; those in the environment are without that.
        """
        named = None if root is None else Path(root).absolute()
        project = project_root(Path.cwd(), named)
        self.root = named or project
        self.registry = Registry(places(project, None if dir is None else Path(dir), meant=is_same(project, named)))
        self._model = model
        self._strict = strict
        self._provider = provider
        self._tools = given(tools)
        self._augmenters = augmenters
        self._trust = Trust(given=trust)
        self._clients = McpClients()
        self._connections = ProviderPool()
        self._family = Children(self.registry, self.root, self._provider_below, self._begin, max_depth, strict=strict)
        self.store = None if store is None else str(store)
        if on_lost not in get_args(OnLost):
            raise UsageError(f"on_lost must be one of {', '.join(get_args(OnLost))}, got {on_lost!r}")
        self._on_lost = on_lost
        self.secrets = (*secrets, *passwords(self.store or ""))
        """Masked in every result, in addition to those in the environment."""
        self._storing = RunStore(self.store, needed=on_lost == "abort")

    async def prepare(
        self,
        specialist: str | Path | Specialist,
        question: str,
        *,
        listener: Listener | None = None,
        watch: Watch | None = None,
        **settings: Any,  # noqa: ANN401 - keys of the specialist's file, each of its own type
    ) -> Run:
        """Resolve everything and return a run that can be started and aborted.

        specialist: a name, a path to a file, or a value made in code.
        settings: keys of the file that this call overrides, e.g. `tool_calls_limit=6`; None means no limit. A
            `preset` beats the file's keys where it names them, and any other setting given here beats the preset.
        Raises UsageError, before anything is asked of a model.
        """
        if not isinstance(question, str):
            raise UsageError(f"the question is to be a text, and not of the type {type(question).__name__}")
        if not question.strip():
            raise UsageError("the question is empty; say what the specialist shall find out")
        if not self.root.is_dir():
            raise UsageError(f"--root: there is no folder {self.root}")
        file = _file_of(specialist) if isinstance(specialist, Specialist) else self.registry.find(str(specialist))
        settled = resolve(file, settings, strict=self._strict).settings
        provider = self._provider or self._connections.provider(
            choose_model(settings.get("model", self._model), settled.model)
        )
        by_program = isinstance(specialist, Specialist)
        around = await self._around(self.root, file, settled, provider, None, by_program=by_program)
        job = spawn(file, settled, question, around)
        return Run(job, listener, watch, journal=await self._storing.journal(job.run_id), on_lost=self._on_lost)

    async def resume(
        self,
        run_id: str,
        question: str | None = None,
        *,
        force: bool = False,
        listener: Listener | None = None,
        watch: Watch | None = None,
        **limits: Any,  # noqa: ANN401 - keys of the specialist's file, each of its own type
    ) -> Run:
        """Take up a stored run where it stands, and return it so that it can be started and aborted.

        run_id: the whole id, the beginning of one, or `last`.
        question: asked beside the first one.
        force: go on although the specialist's file was changed, or another model cannot take all that was said.
        limits: new totals, e.g. `tool_calls_limit=50`; None means no limit.
        Raises RunNotFound, NotResumable with the reason, and other UsageErrors, before anything is asked of a model.
        """
        run = await self._storing.load(run_id)
        root = Path(run.frozen["root"])
        provider = self._provider or self._connections.provider(self._model or run.model)
        file, settled = begun_with(run)
        parent = Parent(run.parent_id, root, tuple(run.frozen.get("parents", ()))) if run.parent_id else None
        now = load(file.path, project_of(file.path, [root]))
        around = await self._around(root, now, settled, provider, parent, resumed=True)
        job = resume(run, ResumeRequest(question, limits, force), around)
        return Run(job, listener, watch, journal=await self._storing.claim(run), on_lost=self._on_lost)

    async def run(
        self,
        specialist: str | Path | Specialist,
        question: str,
        *,
        listener: Listener | None = None,
        watch: Watch | None = None,
        **settings: Any,  # noqa: ANN401 - as in `prepare`
    ) -> Outcome:
        """Put a question to a specialist and return its outcome; see `prepare`."""
        run = await self.prepare(specialist, question, listener=listener, watch=watch, **settings)
        return await run.outcome()

    def stream(
        self,
        specialist: str | Path | Specialist,
        question: str,
        *,
        listener: Listener | None = None,
        watch: Watch | None = None,
        **settings: Any,  # noqa: ANN401 - as in `prepare`
    ) -> Stream:
        """Return a run whose events are read by `async for`; see `Stream` for its shape and `prepare` for the rest."""
        return Stream(lambda: self.prepare(specialist, question, listener=listener, watch=watch, **settings))

    async def _begin(  # noqa: PLR0913, PLR0917 - all that a child differs in
        self,
        file: SpecialistFile,
        settings: Specialist,
        question: str,
        parent: Parent,
        provider: Provider,
        listener: Listener,
    ) -> Run:
        """Prepare the run of a child."""
        job = spawn(file, settings, question, await self._around(parent.root, file, settings, provider, parent))
        return Run(job, listener, journal=await self._storing.journal(job.run_id), on_lost=self._on_lost)

    async def _around(  # noqa: PLR0913 - all that a run differs in
        self,
        root: Path,
        file: SpecialistFile,
        settings: Specialist,
        provider: Provider,
        parent: Parent | None,
        *,
        resumed: bool = False,
        by_program: bool = False,
    ) -> RunEnvironment:
        delegate, missing = self._family.delegate(file, settings, root, parent, provider)
        equipment = await equip(
            file, settings, root, self._trust, self._clients, resumed=resumed, by_program=by_program
        )
        refused = () if parent or by_program else self.registry.refused
        checked = await check_paths(file, settings, root)
        equipment = replace(equipment, warnings=(*equipment.warnings, *missing, *refused, *checked.warnings))
        return RunEnvironment(
            root,
            provider,
            self._tools,
            self._augmenters,
            equipment,
            delegate,
            parent,
            seconds=checked.seconds,
            secrets=self.secrets,
        )

    def _provider_below(self, settings: Specialist, provider: Provider) -> Provider:
        """Return the provider of a child; one that names no model has that of the one that asks."""
        if self._provider is not None or settings.model in {None, "inherit"}:
            return provider
        return self._connections.provider(choose_model(self._model, settings.model))

    async def aclose(self) -> None:
        """Close the connections of all children, the servers of their tools, and the store."""
        async with AsyncExitStack() as parts:
            # The store last: what happens while the others are closed is kept too.
            parts.push_async_callback(self._storing.aclose)
            parts.push_async_callback(self._connections.aclose)
            parts.push_async_callback(self._clients.aclose)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


def _file_of(specialist: Specialist) -> SpecialistFile:
    path = specialist.path or Path(f"<{specialist.name}>")
    return SpecialistFile(path, specialist.name, specialist.description, specialist=specialist)

"""`Runner`: runs specialists and reuses connections, tool servers and the store between runs."""

from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from run_specialist.api.children import Children
from run_specialist.api.project_files import file_of, find_project
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
from run_specialist.spawning.model_trust import check_model
from run_specialist.spawning.paths_check import check_paths
from run_specialist.spawning.resuming import ResumeRequest, begun_with, resume
from run_specialist.spawning.run_environment import Parent, RunEnvironment
from run_specialist.spawning.spawner import spawn
from run_specialist.spawning.trust import Trust
from run_specialist.specialist.agent_graph import MAX_DEPTH
from run_specialist.specialist.fields import Specialist
from run_specialist.specialist.loader import SpecialistFile, load
from run_specialist.specialist.project import project_of, project_path
from run_specialist.specialist.resolve import resolve
from run_specialist.tools.base import Tool
from run_specialist.tools.decorator import as_tools
from run_specialist.tools.mcp.clients import McpClients


class Runner:
    """Runs specialists; runs with the same model share a connection pool."""

    def __init__(  # noqa: PLR0913 - keyword arguments, all optional
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
        """Configure a runner; files and connections are opened on first use.

        root: the folder that the file tools can read; None for the project root.
        dir: a folder to search for specialist files before the default folders.
        model: an alias, a full id or `offline`; None for the model in the file or the environment.
        provider: used instead of a provider for the model.
        tools: added to the tools of every specialist; functions become tools.
        augmenters: can add a line to each tool result, before the countdown.
        store: location of stored runs: a file, `sqlite:///FILE`, `postgresql://...`, or `none`; None for
            SPECIALIST_STORE, else a file in the user's data directory.
        on_lost: if the store can no longer be written, `go_on` warns and continues unstored; `abort` ends the run
            before its next request, and refuses to start a run that cannot be stored.
        trust: allow the files that are run to start the commands and import the functions they declare, and remember
            this.
        max_depth: levels of specialists that may call one another below a run; 0 = none.
        secrets: credentials to redact in every tool result; credentials in the environment are always redacted.
        """
        self.root, self.registry = find_project(root, dir)
        self._model = model
        self._strict = strict
        self._provider = provider
        self._tools = as_tools(tools)
        self._augmenters = augmenters
        self._trust = Trust(given=trust)
        self._clients = McpClients()
        self._providers = ProviderPool()
        self._children = Children(
            self.registry, self.root, self._child_provider, self._prepare_child, max_depth, strict=strict
        )
        self.store = None if store is None else str(store)
        self._store = RunStore(self.store, on_lost)
        self.secrets = (*secrets, *passwords(self.store or ""))
        """Redacted in every tool result, in addition to credentials in the environment."""
        self.loading: Callable[[str], None] | None = None
        """Called from a thread, with a line, when the weights of a `local:` model begin to load."""

    async def prepare(
        self,
        specialist: str | Path | Specialist,
        question: str,
        *,
        listener: Listener | None = None,
        watch: Watch | None = None,
        **settings: Any,  # noqa: ANN401 - keys of the specialist's file, each of its own type
    ) -> Run:
        """Return a new run, ready to be started or aborted.

        specialist: a name, the path of a file, or a `Specialist`.
        settings: keys of the file to override, e.g. `tool_calls_limit=6`; None means no limit. A `preset` overrides
            the keys of the file that it sets, and the other settings override the preset.
        Raises UsageError before any request is sent to a model.
        """
        if not isinstance(question, str):
            raise UsageError(f"question must be a string, got {type(question).__name__}")
        if not question.strip():
            raise UsageError("the question is empty; pass the question that the specialist should answer")
        if not self.root.is_dir():
            raise UsageError(f"--root: {self.root} is not a folder")
        file = file_of(specialist) if isinstance(specialist, Specialist) else self.registry.find(str(specialist))
        settled = resolve(file, settings, strict=self._strict).settings
        by_program = isinstance(specialist, Specialist)
        asked = settings.get("model", self._model)
        provider = self._provider or await self._chosen(asked, settled.model, None if by_program else file, self.root)
        environment = await self._environment(self.root, file, settled, provider, None, by_program=by_program)
        job = spawn(file, settled, question, environment)
        return Run(job, listener, watch, journal=await self._store.journal(job.run_id), on_lost=self._store.on_lost)

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
        """Return a stored run, ready to continue where it stopped.

        run_id: an id, an unambiguous prefix, or `last`: the newest run of this project.
        question: an additional question.
        force: resume even if the specialist's file has changed, or another model cannot take the whole transcript.
        limits: new totals, e.g. `tool_calls_limit=50`; None means no limit.
        Raises RunNotFound, NotResumable with the reason, or another UsageError, before any request is sent to a model.
        """
        run = await self._store.load(run_id, project_path(self.root))
        root = Path(run.frozen["root"])
        file, settled = begun_with(run)
        parent = Parent(run.parent_id, root, tuple(run.frozen.get("parents", ()))) if run.parent_id else None
        current = load(file.path, project_of(file.path, [root]))
        provider = self._provider or await self._chosen(self._model, run.model, current, root)
        environment = await self._environment(root, current, settled, provider, parent, resumed=True)
        job = resume(run, ResumeRequest(question, limits, force), environment)
        return Run(job, listener, watch, journal=await self._store.claim(run), on_lost=self._store.on_lost)

    async def run(
        self,
        specialist: str | Path | Specialist,
        question: str,
        *,
        listener: Listener | None = None,
        watch: Watch | None = None,
        **settings: Any,  # noqa: ANN401 - as in `prepare`
    ) -> Outcome:
        """Ask a specialist a question and return its outcome; the arguments are those of `prepare`."""
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
        """Return a `Stream` of the run's events; the arguments are those of `prepare`."""
        return Stream(lambda: self.prepare(specialist, question, listener=listener, watch=watch, **settings))

    async def _prepare_child(  # noqa: PLR0913, PLR0917 - called in one place
        self,
        file: SpecialistFile,
        settings: Specialist,
        question: str,
        parent: Parent,
        provider: Provider,
        listener: Listener,
    ) -> Run:
        """Return a new child run."""
        environment = await self._environment(parent.root, file, settings, provider, parent)
        job = spawn(file, settings, question, environment)
        return Run(job, listener, journal=await self._store.journal(job.run_id), on_lost=self._store.on_lost)

    async def _environment(  # noqa: PLR0913 - called by `prepare`, `resume` and `_prepare_child`
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
        delegate, uncallable = self._children.delegate(file, settings, root, parent, provider)
        extra_tools = await equip(
            file, settings, root, self._trust, self._clients, resumed=resumed, by_program=by_program
        )
        refused = () if parent or by_program else self.registry.refused
        checked = await check_paths(file, settings, root)
        extra_tools = replace(extra_tools, warnings=(*extra_tools.warnings, *uncallable, *refused, *checked.warnings))
        return RunEnvironment(
            root,
            provider,
            self._tools,
            self._augmenters,
            extra_tools,
            delegate,
            parent,
            seconds=checked.seconds,
            secrets=self.secrets,
        )

    async def _child_provider(self, file: SpecialistFile, settings: Specialist, provider: Provider) -> Provider:
        """Return the provider of a child; a child without a model inherits the parent's provider."""
        if self._provider is not None or settings.model in {None, "inherit"}:
            return provider
        return await self._chosen(self._model, settings.model, file, self.root)

    async def _chosen(self, asked: str | None, named: str | None, file: SpecialistFile | None, root: Path) -> Provider:
        """Return the provider of the model that was asked for, else of the one that a file names.

        file: needs trust for a local model that it names; None = a specialist of this program, which needs none.
        """
        if file is not None and not asked:
            await check_model(file, named, root, self._trust)
        return await self._providers.provider(choose_model(asked, named), self.loading)

    async def aclose(self) -> None:
        """Close all connections, the MCP servers, and the store."""
        async with AsyncExitStack() as parts:
            # Callbacks run in reverse: the store closes last, so that events during shutdown are stored.
            parts.push_async_callback(self._store.aclose)
            parts.push_async_callback(self._providers.aclose)
            parts.push_async_callback(self._clients.aclose)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

"""Run children: the environment of each run, and the runs that it delegates to."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from run_specialist.api.model_choice import ModelChoice
from run_specialist.budget import Kind
from run_specialist.errors import UsageError
from run_specialist.loop.account import LANDING_OVERTIME, SHARED_KINDS
from run_specialist.loop.compaction import tokens
from run_specialist.loop.job import Augmenter
from run_specialist.loop.run import Run
from run_specialist.providers.base import Provider
from run_specialist.providers.choose import keys_of
from run_specialist.record.events import ChildTold, Event, Listener
from run_specialist.record.messages import Usage
from run_specialist.record.outcome import Outcome
from run_specialist.spawning.availability import check_paths, obstacles, powers
from run_specialist.spawning.extra_tools import ExtraTools, equip
from run_specialist.spawning.prompt_texts import AgentMemory, MemoryRequest, PromptTexts, agent_memory, read_texts
from run_specialist.spawning.spawner import Parent, RunEnvironment
from run_specialist.spawning.trust import Claim, Demand, Trust, demanded, origins_of
from run_specialist.specialist.fields import Specialist
from run_specialist.specialist.loader import SpecialistFile
from run_specialist.specialist.origins import ValueOrigins, rule
from run_specialist.specialist.project import is_same, places, project_root
from run_specialist.specialist.registry import Registry
from run_specialist.specialist.settings import resolve
from run_specialist.tools.base import ChildContext, Tool
from run_specialist.tools.delegate import AgentDescription, delegate_tool
from run_specialist.tools.edit import Patch, WorkingCopy
from run_specialist.tools.mcp import McpClients
from run_specialist.tools.secret_files import own_folders
from run_specialist.tools.threads import in_thread

MIN_USAGE = Usage(input_tokens=2_600, output_tokens=400)
"""Usage of the smallest useful child run: tool definitions, fixed instructions and two short replies."""

PrepareChild = Callable[[SpecialistFile, Specialist, str, Parent, Provider, Listener], Awaitable[Run]]
"""Prepares a child run."""


class Children:
    """Runs the specialists that a run calls with its `delegate` tool."""

    def __init__(  # noqa: PLR0913 - made in one place
        self,
        registry: Registry,
        root: Path,
        models: ModelChoice,
        prepare: PrepareChild,
        max_depth: int,
        *,
        strict: bool,
    ) -> None:
        self._registry = registry
        self._registries = {root: registry}
        self._models = models
        self._prepare = prepare
        self._max_depth = max_depth
        self._strict = strict

    async def delegate(  # noqa: PLR0913, PLR0917 - called in one place
        self,
        file: SpecialistFile,
        settings: Specialist,
        root: Path,
        parent: Parent | None,
        provider: Provider,
        patch: Patch | None,
        *,
        origins: ValueOrigins,
        trust: Trust,
        resumed: bool = False,
    ) -> tuple[Tool | None, tuple[str, ...]]:
        """Return the `delegate` tool of a specialist, and a warning for each agent in its file that it cannot call.

        root: the working folder of the specialist.
        parent: the run that called this specialist; None at the top level.
        patch: takes the changes of a dry run; None = it is none.
        origins: those of the settings; a project's file needs trust for specialists that have powers.
        resumed: a resumed run calls the specialists of its own project, wherever the command is called.
        The tool is None if the specialist has no agents, or none of them can be called.
        """
        place = file.place("agents")
        if not settings.agents:
            return None, ()
        if resumed and not any(
            is_same(project_root(root), one.project) for one in self._registry.places if one.project
        ):
            self._registries.pop(root, None)
        above = (*(parent.names if parent else ()), settings.name)
        if len(above) > self._max_depth:
            return None, (f"{place}: agents: not available more than {self._max_depth} levels below the first run",)
        callable_: dict[str, SpecialistFile] = {}
        warnings: list[str] = []
        for name in self._registry_of(root).callable_names(settings.agents):
            try:
                child = self._find(name, root, file)
                resolve(child, {}, strict=self._strict)
                if child.name in above:
                    raise UsageError(f"{child.name} is at work on the question already")  # noqa: TRY301 - as from `resolve`
                callable_[child.name] = child
            except UsageError as error:
                # With `*`, agents that it cannot call need no warning.
                if name in settings.agents:
                    warnings.append(f"{place}: agents: {error}")
        if any(problem.key == "agents" for problem in file.problems):
            # The registry has already reported these problems.
            warnings.clear()
        withheld, noted = await in_thread(lambda: self._withheld(file, origins, callable_, root, trust))
        warnings += noted
        callable_ = {name: child for name, child in callable_.items() if name not in withheld}
        unavailable = await self._unavailable(callable_.values(), root, provider)
        warnings += [
            f"{place}: agents: {child.name} cannot work here: {unavailable[child.path]}"
            for name, child in callable_.items()
            if child.path in unavailable and ("*" not in settings.agents or name in settings.agents)
        ]
        found = tuple(
            AgentDescription(child.name, child.description)
            for child in callable_.values()
            if child.path not in unavailable
        )
        if not found:
            return None, tuple(warnings)

        async def run_child(name: str, question: str, context: ChildContext) -> Outcome:
            return await self._run_child(name, question, context, Parent(context.run_id, root, above, patch), provider)

        return delegate_tool(found, run_child), tuple(warnings)

    def _withheld(
        self,
        caller: SpecialistFile,
        origins: ValueOrigins,
        children: Mapping[str, SpecialistFile],
        root: Path,
        trust: Trust,
    ) -> tuple[Collection[str], list[str]]:
        """Return the names of specialists that a file must not call yet, and warnings; blocks while it reads files."""
        withheld, warnings, place = set[str](), list[str](), f"{caller.place('agents')}: agents"
        for name, child in children.items():
            claim = self._claim(caller, origins, child, root, trust, (caller.path,))
            if why := trust.why_not(claim):
                withheld.add(name)
                warnings.append(f"{place}: {name} cannot be called: {why}")
            else:
                warnings += trust.check(claim)
        return withheld, warnings

    def _claim(  # noqa: PLR0913, PLR0917 - the parts of a call
        self,
        caller: SpecialistFile,
        origins: ValueOrigins,
        child: SpecialistFile,
        root: Path,
        trust: Trust,
        above: tuple[Path, ...],
    ) -> Claim:
        """Return the permission that a file needs to call a specialist with powers.

        The words of the caller become the question of the child, so that it could use what the child may do.
        """
        demands: tuple[Demand, ...] = ()
        if rule("agents", origins.of("agents")) != "free" and (does := self._powers(child, root, trust, above)):
            place, fingerprint = f"{caller.place('agents')}: agents", f"{child.digest} {does}"
            demands = demanded(origins, ["agents"], place, f"ask {child.name}, which may {does}", fingerprint)
        return Claim(caller.path, caller.digest, project_root(root), demands)

    def _powers(self, file: SpecialistFile, root: Path, trust: Trust, above: tuple[Path, ...]) -> str:
        """Return what a specialist may do beyond reading, itself or by those that it may call; empty if nothing.

        above: the files that call it, which it cannot call.
        """
        settings = file.specialist
        if settings is None or len(above) > self._max_depth:
            return ""
        found = powers(file, resolve(file, {}).settings, root, trust)
        for name in self._registry_of(root).callable_names(settings.agents):
            with suppress(UsageError):
                child = self._find(name, root, file)
                inside = (*above, file.path)
                if child.path in inside or not trust.allows(
                    self._claim(file, origins_of(file), child, root, trust, inside)
                ):
                    continue
                found += [one for one in [self._powers(child, root, trust, inside)] if one]
        return "; ".join(dict.fromkeys(found))

    async def _unavailable(self, files: Iterable[SpecialistFile], root: Path, provider: Provider) -> Mapping[Path, str]:
        """Return why children cannot work in a folder, by the path of their file.

        provider: the provider of the parent.
        """
        children = [*files]
        of_model = partial(self._models.obstacle, parents=provider)
        found: Mapping[Path, str] = await in_thread(partial(obstacles, children, root, of_model))
        return found

    def _find(self, name: str, root: Path, caller: SpecialistFile | None = None) -> SpecialistFile:
        return self._registry_of(root).find(name, caller)

    def _registry_of(self, root: Path) -> Registry:
        """Return the specialists of the project that contains `root`.

        A run resumed from another project thus calls the same specialists as before.
        """
        if root not in self._registries:
            self._registries[root] = Registry([*places(project_root(root)), *self._registry.places])
        return self._registries[root]

    async def _run_child(
        self, name: str, question: str, context: ChildContext, parent: Parent, provider: Provider
    ) -> Outcome:
        if not question.strip():
            raise UsageError("the query is empty; say what it shall find out")
        file = self._find(name, parent.root)
        settings = resolve(file, {}, strict=self._strict).settings
        provider = await self._models.provider_for_child(file, settings, provider)
        requested = {kind: getattr(settings, kind.key) for kind in SHARED_KINDS}
        minimum: dict[Kind, float] = {}
        if provider.capabilities.is_language_model:
            # Enough for its first request.
            usage = MIN_USAGE + Usage(2 * tokens(len(settings.prompt) + len(question)))
            minimum = {Kind.TOKENS: usage.total_tokens, Kind.COST: provider.cost(usage) or 0}
        lent = context.lender.lend(requested, minimum)
        run: Run | None = None
        try:
            for kind, amount in lent.items():
                if amount is not None and requested[kind] != amount and (not amount or amount < minimum.get(kind, 0)):
                    raise UsageError(f"of the {kind.label} nothing is left that it could use; go on with what you have")
            limits: dict[str, float | None] = {
                kind.key: amount if amount is None or kind is Kind.COST else int(amount)
                for kind, amount in lent.items()
            }
            if (left := context.limit(Kind.TIME).until_landing) is not None:
                # The landing of the child ends before the time of its parent is up.
                longest = left / (1 + LANDING_OVERTIME)
                limits["time_limit"] = min(longest, longest if settings.time_limit is None else settings.time_limit)
            settings = settings.model_copy(update=limits)

            def pass_on(event: Event) -> None:
                if run is not None:
                    context.lender.pass_on(ChildTold(run.run_id, file.name, event))

            run = await self._prepare(file, settings, question, parent, provider, pass_on)
            with context.stopping(partial(run.abort, after_turn=True)):
                outcome = asyncio.ensure_future(run.outcome())
                try:
                    return await asyncio.shield(outcome)
                except asyncio.CancelledError:
                    run.abort()
                    return await outcome
        finally:
            # A cancelled child has spent budget, too, even if its outcome is discarded.
            ended = None if run is None else run.ended
            context.lender.settle(None if ended is None else ended.as_child())


@dataclass(frozen=True)
class RunEnvironments:
    """Values shared by all runs of a `Runner`."""

    registry: Registry
    children: Children
    trust: Trust
    clients: McpClients
    tools: Sequence[Tool]
    augmenters: Sequence[Augmenter]
    secrets: Sequence[str]
    dry_run: bool = False
    """Whether the changes of files are collected in a patch."""

    async def make(  # noqa: PLR0913 - the parts of a run
        self,
        root: Path,
        file: SpecialistFile,
        settings: Specialist,
        provider: Provider,
        parent: Parent | None,
        *,
        origins: ValueOrigins | None = None,
        capped: Sequence[str] = (),
        resumed: bool = False,
        was_dry: bool = False,
    ) -> RunEnvironment:
        """Return the environment of a run; connects to the MCP servers of the file, and imports its functions.

        origins: those of the settings, which decide about their powers; None = all are those of the file.
        capped: warnings about limits of a project that are not used.
        was_dry: whether it continues a dry run; then it must change no file, because earlier changes were not kept.
        Raises UsageError if something that the run needs is missing.
        """
        origins = origins or origins_of(file)
        patch = (parent and parent.patch) or (Patch(is_closed=was_dry) if self.dry_run or was_dry else None)
        delegate, uncallable = await self.children.delegate(
            file, settings, root, parent, provider, patch, origins=origins, trust=self.trust, resumed=resumed
        )
        extra_tools = await self._extra_tools(file, settings, root, provider, patch, origins, resumed=resumed)
        refused = () if parent or file.given_origin == "caller" else self.registry.refused
        checked = await check_paths(file, settings, root)
        texts, memory = await self._texts(file, settings, root, origins, resumed=resumed), AgentMemory()
        if settings.memory is not None:
            secrets = (*keys_of(provider), *extra_tools.secrets, *self.secrets)
            wanted = MemoryRequest(secrets, resumed, origins, is_dry=patch is not None)
            memory = await in_thread(lambda: agent_memory(file, settings, root, self.trust, wanted))
        warnings = (*capped, *extra_tools.warnings, *uncallable, *refused, *checked.warnings, *memory.warnings)
        extra_tools = replace(extra_tools, warnings=warnings)
        return RunEnvironment(
            root,
            provider,
            self.tools,
            self.augmenters,
            extra_tools,
            delegate,
            parent,
            seconds=checked.seconds,
            prompt_texts=texts.followed_by(memory.text),
            memory=memory,
            secrets=self.secrets,
            patch=patch,
        )

    async def _extra_tools(  # noqa: PLR0913, PLR0917 - the parts of a run
        self,
        file: SpecialistFile,
        settings: Specialist,
        root: Path,
        provider: Provider,
        patch: Patch | None,
        origins: ValueOrigins,
        *,
        resumed: bool,
    ) -> ExtraTools:
        """Return the tools that a file declares; in a dry run they write to the patch."""

        def agent_folders() -> tuple[Path, ...]:
            # A project's root may hold any file, so it is none.
            places = (one for one in self.registry.places if one.project is None or not is_same(one.path, one.project))
            return own_folders([file.path, *(one.path for one in places)])

        copy = WorkingCopy(root, patch, agent_folders)
        return await equip(
            file,
            settings,
            root,
            self.trust,
            self.clients,
            copy=copy,
            origins=origins,
            resumed=resumed,
            on_server=provider.capabilities.server_tools and settings.tool_calls == "native",
        )

    async def _texts(
        self, file: SpecialistFile, settings: Specialist, root: Path, origins: ValueOrigins, *, resumed: bool
    ) -> PromptTexts:
        """Return the additions to the prompt. A resumed run keeps its prompt, so only the readable files matter."""
        if not (settings.skills or settings.project_instructions):
            return PromptTexts()
        try:
            texts: PromptTexts = await in_thread(lambda: read_texts(file, settings, root, self.trust, origins))
        except UsageError:
            if not resumed:
                raise
            texts = PromptTexts()
        return texts

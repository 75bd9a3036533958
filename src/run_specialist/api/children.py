"""Make the environment of each run, and run the specialists that it delegates to."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from run_specialist.api.model_choice import ModelChoice
from run_specialist.api.run_store import RunStore
from run_specialist.budget import Kind
from run_specialist.errors import UsageError
from run_specialist.loop.account import LANDING_OVERTIME, SHARED_KINDS
from run_specialist.loop.compaction import tokens
from run_specialist.loop.job import Augmenter
from run_specialist.loop.run import Run
from run_specialist.providers.base import Provider
from run_specialist.providers.choose import keys_of
from run_specialist.record.events import ChildTold, Event
from run_specialist.record.messages import Usage
from run_specialist.record.outcome import Outcome
from run_specialist.spawning.availability import check_paths, obstacles, powers
from run_specialist.spawning.extra_tools import equip
from run_specialist.spawning.prompt_texts import AgentMemory, PromptTexts, agent_memory, read_texts
from run_specialist.spawning.spawner import Parent, RunEnvironment, spawn
from run_specialist.spawning.trust import Claim, RunContext, Trust
from run_specialist.specialist.loader import SpecialistFile
from run_specialist.specialist.project import is_same, places
from run_specialist.specialist.registry import Registry
from run_specialist.specialist.settings import resolve
from run_specialist.tools.base import ChildContext, Tool
from run_specialist.tools.delegate import delegate_tool
from run_specialist.tools.edit import Patch, WorkingCopy
from run_specialist.tools.mcp import McpClients
from run_specialist.tools.secret_files import own_folders
from run_specialist.tools.threads import in_thread

# Usage of the smallest useful child run: tool definitions, fixed instructions and two short replies.
_MIN_USAGE = Usage(input_tokens=2_600, output_tokens=400)


@dataclass(frozen=True)
class RunEnvironments:
    """The parts of a `Runner` that all its runs share; makes the environment of each run."""

    root: Path
    registry: Registry
    models: ModelChoice
    store: RunStore
    trust: Trust
    clients: McpClients
    tools: Sequence[Tool]
    augmenters: Sequence[Augmenter]
    secrets: Sequence[str]
    strict: bool
    """Whether warnings about a file are errors."""
    max_depth: int
    """Maximum depth of nested specialists below a run."""
    dry_run: bool
    """Whether the changes of files are collected in a patch."""

    async def make(
        self,
        context: RunContext,
        provider: Provider,
        parent: Parent | None = None,
        *,
        capped: Sequence[str] = (),
        was_dry: bool = False,
    ) -> RunEnvironment:
        """Return the environment of a run; connects to the MCP servers of the file, and imports its functions.

        capped: warnings about limits of a project that are not used.
        was_dry: whether it continues a dry run; then it must change no file, because earlier changes were not kept.
        Raises UsageError if something that the run needs is missing.
        """
        file, settings, root = context.file, context.settings, context.root
        patch = (parent and parent.patch) or (Patch(is_closed=was_dry) if self.dry_run or was_dry else None)
        delegate, uncallable = await self._delegate(context, provider, parent, patch)

        def agent_folders() -> tuple[Path, ...]:
            # A project's root may hold any file, so it is none.
            found = (one for one in self.registry.places if one.project is None or not is_same(one.path, one.project))
            return own_folders([file.path, *(one.path for one in found)])

        known = provider.capabilities
        on_server = known.server_tools and known.call_format(settings.tool_calls) == "native"
        # In a dry run, the tools write to the patch.
        copy = WorkingCopy(root, patch, agent_folders)
        extra_tools = await equip(context, self.clients, copy, on_server=on_server)
        refused = () if parent or file.given_origin == "caller" else self.registry.refused
        seconds, searched = await check_paths(file, settings, root)
        texts = PromptTexts()
        if settings.skills or settings.project_instructions:
            try:
                texts = await in_thread(lambda: read_texts(context))
            except UsageError:
                # A resumed run keeps its prompt, so only the readable files matter.
                if not context.resumed:
                    raise
        secrets = (*keys_of(provider), *extra_tools.secrets, *self.secrets)
        memory = AgentMemory()
        if settings.memory is not None:
            memory = await in_thread(lambda: agent_memory(context, secrets, is_dry=patch is not None))
        warnings = (*capped, *extra_tools.warnings, *uncallable, *refused, *searched, *memory.warnings)
        extra = replace(extra_tools, warnings=warnings)
        environment = RunEnvironment(root, provider, self.tools, self.augmenters, extra, delegate, parent, seconds)
        texts = texts.followed_by(memory.text)
        return replace(environment, prompt_texts=texts, memory=memory, secrets=self.secrets, patch=patch)

    async def _delegate(
        self, context: RunContext, provider: Provider, parent: Parent | None, patch: Patch | None
    ) -> tuple[Tool | None, Sequence[str]]:
        """Return the `delegate` tool of a specialist, and a warning for each agent in its file that it cannot call.

        patch: takes the changes of a dry run; None = it is none.
        The tool is None if the specialist has no agents, or none of them can be called.
        """
        file, settings, root, place = context.file, context.settings, context.root, context.place("agents")
        if not settings.agents:
            return None, ()
        above = (*(parent.names if parent else ()), settings.name)
        if len(above) > self.max_depth:
            return None, (f"{place}: not available more than {self.max_depth} levels below the first run",)
        registry = (parent and parent.registry) or self._registry_of(context)
        found: dict[str, SpecialistFile] = {}
        warnings: list[str] = []
        for name in registry.callable_names(settings.agents):
            try:
                child = registry.find(name, file)
                resolve(child, {}, strict=self.strict)
                if child.name in above:
                    raise UsageError(f"{child.name} is at work on the question already")  # noqa: TRY301 - as from `resolve`
                found[name] = child
            except UsageError as error:
                # With `*`, agents that it cannot call need no warning.
                if name in settings.agents:
                    warnings.append(f"{place}: {error}")
        if any(problem.key == "agents" for problem in file.problems):
            # The registry has already reported these problems.
            warnings.clear()

        def allowed() -> Mapping[str, SpecialistFile]:
            callable_ = {}
            for name, child in found.items():
                claim = self._claim(context, registry, child, (file.path,))
                if why := context.trust.why_not(claim):
                    warnings.append(f"{place}: {name} cannot be called: {why}")
                else:
                    warnings.extend(context.trust.check(claim))
                    callable_[name] = child
            return callable_

        callable_ = await in_thread(allowed)
        of_model = partial(self.models.obstacle, parents=provider)
        unavailable = await in_thread(lambda: obstacles(callable_.values(), root, of_model))
        warnings += [
            f"{place}: {child.name} cannot work here: {unavailable[child.path]}"
            for name, child in callable_.items()
            if child.path in unavailable and ("*" not in settings.agents or name in settings.agents)
        ]
        children = {child.name: child for child in callable_.values() if child.path not in unavailable}
        if not children:
            return None, warnings

        async def run_child(name: str, question: str, call: ChildContext) -> Outcome:
            caller = Parent(call.run_id, root, above, patch, registry)
            return await self._run_child(children[name], question, call, caller, provider)

        return delegate_tool({name: one.description for name, one in children.items()}, run_child), warnings

    def _registry_of(self, context: RunContext) -> Registry:
        """Return the specialists that a run may call: a resumed one calls those of its own project, wherever it is."""
        projects = [one.project for one in self.registry.places if one.project]
        if not context.resumed or any(is_same(context.project, project) for project in projects):
            return self.registry
        return Registry([*places(context.project), *self.registry.places])

    def _claim(self, caller: RunContext, registry: Registry, child: SpecialistFile, above: tuple[Path, ...]) -> Claim:
        """Return the permission that a file needs to call a specialist with powers; blocks while it reads files.

        The words of the caller become the question of the child, so that it could use what the child may do.
        """
        if caller.rule("agents") == "free" or not (does := self._powers(caller, registry, child, above)):
            return caller.claim(())
        return caller.claim(caller.demands(["agents"], f"ask {child.name}, which may {does}", f"{child.digest} {does}"))

    def _powers(self, caller: RunContext, registry: Registry, file: SpecialistFile, above: tuple[Path, ...]) -> str:
        """Return what a specialist may do beyond reading, itself or by those that it may call; empty if nothing.

        above: the files that call it, which it cannot call.
        """
        if file.specialist is None or len(above) > self.max_depth:
            return ""
        context, inside = RunContext(file, resolve(file, {}).settings, caller.root, caller.trust), (*above, file.path)
        found = powers(context)
        for name in registry.callable_names(context.settings.agents):
            with suppress(UsageError):
                child = registry.find(name, file)
                if child.path not in inside and caller.trust.allows(self._claim(context, registry, child, inside)):
                    found += [one for one in [self._powers(context, registry, child, inside)] if one]
        return "; ".join(dict.fromkeys(found))

    async def _run_child(
        self, file: SpecialistFile, question: str, call: ChildContext, parent: Parent, provider: Provider
    ) -> Outcome:
        if not question.strip():
            raise UsageError("the query is empty; say what it shall find out")
        settings = resolve(file, {}, strict=self.strict).settings
        provider = await self.models.provider_for_child(file, settings, provider)
        requested = {kind: getattr(settings, kind.key) for kind in SHARED_KINDS}
        minimum: dict[Kind, float] = {}
        if provider.capabilities.is_language_model:
            # Enough for its first request.
            usage = _MIN_USAGE + Usage(2 * tokens(len(settings.prompt) + len(question)))
            minimum = {Kind.TOKENS: usage.total_tokens, Kind.COST: provider.cost(usage) or 0}
        lent = call.lender.lend(requested, minimum)
        run: Run | None = None

        def pass_on(event: Event) -> None:
            if run is not None:
                call.lender.pass_on(ChildTold(run.run_id, file.name, event))

        try:
            for kind, amount in lent.items():
                if amount is not None and requested[kind] != amount and (not amount or amount < minimum.get(kind, 0)):
                    raise UsageError(f"of the {kind.label} nothing is left that it could use; go on with what you have")
            limits: dict[str, float | None] = {
                kind.key: amount if amount is None or kind is Kind.COST else int(amount)
                for kind, amount in lent.items()
            }
            if (left := call.limit(Kind.TIME).until_landing) is not None:
                # The landing of the child ends before the time of its parent is up.
                longest = left / (1 + LANDING_OVERTIME)
                limits["time_limit"] = min(longest, longest if settings.time_limit is None else settings.time_limit)
            settings = settings.model_copy(update=limits)
            environment = await self.make(RunContext(file, settings, parent.root, self.trust), provider, parent)
            job = spawn(file, settings, question, environment)
            run = Run(job, pass_on, journal=await self.store.journal(job.run_id), on_lost=self.store.on_lost)
            with call.stopping(partial(run.abort, after_turn=True)):
                outcome = asyncio.ensure_future(run.outcome())
                call.steered.append(run.steer)
                try:
                    return await asyncio.shield(outcome)
                except asyncio.CancelledError:
                    run.abort()
                    return await outcome
                finally:
                    call.steered.remove(run.steer)
        finally:
            # A cancelled child has spent budget, too, even if its outcome is discarded.
            ended = None if run is None else run.ended
            call.lender.settle(None if ended is None else ended.as_child())

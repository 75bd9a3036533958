"""How the specialists of one runner ask one another: who may ask whom, and with how much of the budget."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from run_specialist.budget.budget import Kind
from run_specialist.errors import UsageError
from run_specialist.loop.compaction.plan import tokens
from run_specialist.loop.run import Run
from run_specialist.loop.spending.account import LATE
from run_specialist.loop.spending.child_budget import LENT
from run_specialist.providers.base import Provider
from run_specialist.record.events import ChildTold, Event, Listener
from run_specialist.record.messages import Usage
from run_specialist.record.outcome import Outcome
from run_specialist.spawning.spawner import Parent
from run_specialist.specialist.fields import Specialist
from run_specialist.specialist.loader import SpecialistFile
from run_specialist.specialist.registry import Registry, places, project_root
from run_specialist.specialist.resolve import resolve
from run_specialist.tools.base import Tool
from run_specialist.tools.context import ChildContext, Context
from run_specialist.tools.delegate_tool import AgentDescription, RunChild, delegate_tool

LEAST = Usage(input_tokens=2_600, output_tokens=400)
"""What the tools, our own words and two short replies take: a child asks once, and lands."""

Begin = Callable[[SpecialistFile, Specialist, str, Parent, Provider, Listener], Awaitable[Run]]
"""Prepares the run of a child."""

Choose = Callable[[Specialist, Provider], Provider]
"""Returns the provider of a child, given its settings and the provider of the one that asks."""


class Children:
    """The specialists that may be asked from inside of a run."""

    def __init__(  # noqa: PLR0913 - where they are found, how each is run, and who may ask
        self, registry: Registry, root: Path, choose: Choose, begin: Begin, max_depth: int, *, strict: bool
    ) -> None:
        self._registry = registry
        self._registries = {root: registry}
        self._choose = choose
        self._begin = begin
        self._max_depth = max_depth
        self._strict = strict

    def delegate(
        self, file: SpecialistFile, settings: Specialist, root: Path, parent: Parent | None, provider: Provider
    ) -> tuple[Tool | None, tuple[str, ...]]:
        """Return the tool with which a specialist asks those that its file lists, and why some are missing.

        root: the folder that it works in.
        parent: of the specialist itself.
        """
        place = file.place("agents")
        if not settings.agents:
            return None, ()
        above = (*(parent.names if parent else ()), settings.name)
        if len(above) > self._max_depth:
            return None, (f"{place}: agents: nobody is asked more than {self._max_depth} levels below the first run",)
        found: dict[str, AgentDescription] = {}
        warnings: list[str] = []
        for name in settings.agents:
            try:
                child = self._askable(name, root, above, file)
                found[child.name] = AgentDescription(child.name, child.description)
            except UsageError as error:
                warnings.append(f"{place}: agents: {error}")
        if any(problem.key == "agents" for problem in file.problems):
            # That was told when the files were checked with one another.
            warnings.clear()
        if not found:
            return None, tuple(warnings)
        return delegate_tool(tuple(found.values()), self._asking(root, above, provider)), tuple(warnings)

    def _find(self, name: str, root: Path, asker: SpecialistFile | None = None) -> SpecialistFile:
        """Return a file as the project of a run knows it: what is taken up from elsewhere asks those that it did."""
        if root not in self._registries:
            self._registries[root] = Registry([*places(project_root(root)), *self._registry.places])
        return self._registries[root].find(name, asker)

    def _askable(self, name: str, root: Path, above: tuple[str, ...], asker: SpecialistFile) -> SpecialistFile:
        file = self._find(name, root, asker)
        resolve(file, {}, strict=self._strict)
        if file.name in above:
            raise UsageError(f"{file.name} is at work on the question already")
        return file

    def _asking(self, root: Path, above: tuple[str, ...], provider: Provider) -> RunChild:
        async def run_child(name: str, question: str, context: ChildContext) -> Outcome:
            return await self._run_child(name, question, context, Parent(context.run_id, root, above), provider)

        return run_child

    async def _run_child(
        self, name: str, question: str, context: ChildContext, parent: Parent, provider: Provider
    ) -> Outcome:
        if not question.strip():
            raise UsageError("the query is empty; say what it shall find out")
        file = self._find(name, parent.root)
        settings = resolve(file, {}, strict=self._strict).settings
        provider = self._choose(settings, provider)
        wanted = {kind: getattr(settings, kind.key) for kind in LENT}
        least = _least(settings, question, provider)
        lent = context.lender.lend(wanted, least)
        run: Run | None = None
        try:
            _check(wanted, lent, least)
            settings = settings.model_copy(update={**_limits(lent), "time_limit": _time(settings, context)})

            def pass_on(event: Event) -> None:
                if run is not None:
                    context.lender.pass_on(ChildTold(run.run_id, file.name, event))

            run = await self._begin(file, settings, question, parent, provider, pass_on)
            return await _to_its_end(run)
        finally:
            # Also of a child that was cancelled from within, and so has an outcome that nobody gets.
            ended = None if run is None else run.ended
            context.lender.settle(None if ended is None else ended.as_child())


def _least(settings: Specialist, question: str, provider: Provider) -> Mapping[Kind, float]:
    """Return with how little of a kind a child is asked at all: its first request goes out whatever it was lent."""
    if not provider.capabilities.is_language_model:
        return {}
    usage = LEAST + Usage(2 * tokens(len(settings.prompt) + len(question)))
    return {Kind.TOKENS: usage.total_tokens, Kind.COST: provider.cost(usage) or 0}


def _check(wanted: Mapping[Kind, float | None], lent: Mapping[Kind, float | None], least: Mapping[Kind, float]) -> None:
    """Refuse to ask where not enough is left of what the child would need."""
    for kind, amount in lent.items():
        if amount is not None and wanted[kind] != amount and (not amount or amount < least.get(kind, 0)):
            raise UsageError(f"of the {kind.words} nothing is left that it could use; go on with what you have")


def _limits(lent: Mapping[Kind, float | None]) -> dict[str, Any]:
    """Return the limits as a file would give them: calls and tokens are whole numbers."""
    return {kind.key: amount if amount is None or kind is Kind.COST else int(amount) for kind, amount in lent.items()}


def _time(settings: Specialist, context: Context) -> float | None:
    """Return the time that a child has, so that its landing ends before the time of the one that asks is up."""
    left = context.limit(Kind.TIME).until_landing
    if left is None:
        return settings.time_limit
    most = left / (1 + LATE)
    return most if settings.time_limit is None else min(most, settings.time_limit)


async def _to_its_end(run: Run) -> Outcome:
    """Wait for the outcome; when the wait is cancelled, the run is stopped and gives what it gathered."""
    task = asyncio.ensure_future(run.outcome())
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        run.abort()
        return await task

"""Builds the environment of each run of a `Runner`: its tools, what it may delegate to, and what it can read."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from run_specialist.api.children import Children
from run_specialist.errors import UsageError
from run_specialist.loop.executed import Augmenter
from run_specialist.providers.base import Provider
from run_specialist.spawning.extra_tools import equip
from run_specialist.spawning.paths_check import check_paths
from run_specialist.spawning.prompt_texts import PromptTexts, read_texts
from run_specialist.spawning.run_environment import Parent, RunEnvironment
from run_specialist.spawning.trust import Trust
from run_specialist.specialist.fields import Specialist
from run_specialist.specialist.loader import SpecialistFile
from run_specialist.specialist.registry import Registry
from run_specialist.tools.base import Tool
from run_specialist.tools.mcp.clients import McpClients
from run_specialist.tools.threads import in_thread


@dataclass(frozen=True)
class RunEnvironments:
    """What all runs of a `Runner` have in common."""

    registry: Registry
    children: Children
    trust: Trust
    clients: McpClients
    tools: Sequence[Tool]
    augmenters: Sequence[Augmenter]
    secrets: Sequence[str]

    async def make(  # noqa: PLR0913 - the parts of a run
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
        """Return the environment of a run; connects to the MCP servers of the file, and imports its functions.

        by_program: whether the specialist is one of this program, which needs no trust.
        Raises UsageError if something is missing that the run cannot do without.
        """
        delegate, uncallable = await self.children.delegate(file, settings, root, parent, provider)
        extra_tools = await equip(
            file,
            settings,
            root,
            self.trust,
            self.clients,
            resumed=resumed,
            by_program=by_program,
            on_server=provider.capabilities.server_tools and settings.tool_calls == "native",
        )
        refused = () if parent or by_program else self.registry.refused
        checked = await check_paths(file, settings, root)
        texts = await in_thread(lambda: _texts(file, settings, root, resumed=resumed))
        extra_tools = replace(extra_tools, warnings=(*extra_tools.warnings, *uncallable, *refused, *checked.warnings))
        return RunEnvironment(
            root,
            provider,
            self.tools,
            self.augmenters,
            extra_tools,
            delegate,
            parent,
            seconds=checked.seconds,
            prompt_texts=texts,
            secrets=self.secrets,
        )


def _texts(file: SpecialistFile, settings: Specialist, root: Path, *, resumed: bool) -> PromptTexts:
    """Return what is added to the prompt; a resumed run has its prompt, so that only what can be read matters."""
    try:
        return read_texts(file, settings, root)
    except UsageError:
        if resumed:
            return PromptTexts()
        raise

"""Build the environment of each run of a `Runner`: its tools, its agents, and the files that it can read."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from run_specialist.api.children import Children
from run_specialist.errors import UsageError
from run_specialist.loop.executed import Augmenter
from run_specialist.providers.base import Provider
from run_specialist.providers.choose import keys_of
from run_specialist.spawning.agent_memory import AgentMemory, MemoryRequest, agent_memory
from run_specialist.spawning.extra_tools import ExtraTools, equip
from run_specialist.spawning.paths_check import check_paths
from run_specialist.spawning.prompt_texts import PromptTexts, read_texts
from run_specialist.spawning.run_environment import Parent, RunEnvironment
from run_specialist.spawning.trust import Trust, origins_of
from run_specialist.specialist.fields import Specialist
from run_specialist.specialist.loader import SpecialistFile
from run_specialist.specialist.origins import ValueOrigins
from run_specialist.specialist.registry import Registry, SearchFolder, is_same
from run_specialist.tools.base import Tool
from run_specialist.tools.editing.working_copy import Patch, WorkingCopy
from run_specialist.tools.mcp.clients import McpClients
from run_specialist.tools.sandbox.protected_files import own_folders
from run_specialist.tools.threads import in_thread


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
        copy = WorkingCopy(root, patch, lambda: own_folders([file.path, *(one.path for one in self._places())]))
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

    def _places(self) -> Iterator[SearchFolder]:
        """Yield the folders that are searched for specialists, but not a project's root, which may hold any file."""
        return (one for one in self.registry.places if one.project is None or not is_same(one.path, one.project))

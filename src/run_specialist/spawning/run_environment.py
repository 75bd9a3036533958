"""The environment of a run: everything that the specialist's file does not define."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from run_specialist.loop.executed import Augmenter
from run_specialist.providers.base import Provider
from run_specialist.spawning.agent_memory import AgentMemory
from run_specialist.spawning.extra_tools import ExtraTools
from run_specialist.spawning.prompt_texts import PromptTexts
from run_specialist.tools.base import Tool
from run_specialist.tools.editing.working_copy import Patch
from run_specialist.tools.planning.todo import TodoList


@dataclass(frozen=True)
class Parent:
    """What a child needs to know about its parent run."""

    run_id: str
    root: Path
    """The folder that parent and child work in."""
    names: tuple[str, ...]
    """The specialists above the child, outermost first; the child must not delegate to any of them."""
    patch: Patch | None = None
    """Receives the changes of a dry run; None = not a dry run."""


@dataclass(frozen=True)
class RunEnvironment:
    """The environment of a run: its folder, its model, and everything that the specialist's file does not define."""

    root: Path
    """The folder that the file tools may read."""
    provider: Provider
    tools: Sequence[Tool] = ()
    """Tools of the program, not filtered by the file's `tools`."""
    augmenters: Sequence[Augmenter] = ()
    """Augmenters of the program, which run before the countdown."""
    extra_tools: ExtraTools = field(default_factory=ExtraTools)
    """The Python functions and MCP tools that the file declares."""
    delegate: Tool | None = None
    """The tool that delegates to other specialists; None if the file lists none, or if none can be called here."""
    parent: Parent | None = None
    """None for a run without a parent."""
    seconds: float = 0
    """Time spent before the run on finding the first match of its `paths` [s]."""
    keeps_archive: bool = False
    """Whether the model was offered the archive before the run was resumed."""
    prompt_texts: PromptTexts = field(default_factory=PromptTexts)
    """The additions to the specialist's prompt."""
    memory: AgentMemory = field(default_factory=AgentMemory)
    """The specialist's notes from earlier runs."""
    plan: TodoList = field(default_factory=TodoList)
    """The list of the tool `todo`."""
    patch: Patch | None = None
    """Receives the changes of a dry run; None = not a dry run."""
    secrets: Sequence[str] = field(default=(), repr=False)
    """Credentials of the program, in addition to those in the environment."""

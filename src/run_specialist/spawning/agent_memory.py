"""The notes of a specialist in a run: the part in the prompt, and the tool that changes them."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from run_specialist import prompts
from run_specialist.redaction import credentials, redactor
from run_specialist.spawning.prompt_texts import AddedText
from run_specialist.spawning.trust import Claim, Trust, demanded, origins_of
from run_specialist.specialist.fields import Specialist
from run_specialist.specialist.loader import SpecialistFile
from run_specialist.specialist.memory_place import MemoryPlace, memory_place
from run_specialist.specialist.origins import ValueOrigins
from run_specialist.specialist.ownership import ownership_problem
from run_specialist.specialist.project import project_root
from run_specialist.specialist.tool_names import resolve_tools
from run_specialist.tools.base import Tool
from run_specialist.tools.memory.memory_tool import NAME, memory_tool
from run_specialist.tools.memory.note_names import MAIN
from run_specialist.tools.memory.notes_folder import NotesFolder
from run_specialist.tools.memory.prompt_notes import PromptNotes, read_notes


@dataclass(frozen=True, slots=True)
class AgentMemory:
    """A specialist's notes, as one run gets them."""

    text: AddedText | None = None
    """The addition to the prompt; None if there is none."""
    tool: Tool | None = None
    withheld: str = ""
    """Why the tool is missing although the file has the key; empty if it is not missing."""
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MemoryRequest:
    """The circumstances in which notes are requested."""

    secrets: Sequence[str] = ()
    """Credentials to mask in written notes, in addition to those in the environment."""
    resumed: bool = False
    """Whether the settings are those stored with the run, which has its prompt already."""
    origins: ValueOrigins | None = None
    """Those of the settings; None = all are those of the file."""
    is_dry: bool = False
    """Whether no file may be changed."""


def agent_memory(
    file: SpecialistFile, settings: Specialist, root: Path, trust: Trust, wanted: MemoryRequest
) -> AgentMemory:
    """Read the notes of a specialist, and return the tool that keeps them; blocks while it reads files.

    A project's file needs trust to write notes. It also needs trust to read those of the user, which come from other
    projects; those of the project are read like its AGENTS.md.
    """
    if settings.memory is None:
        return AgentMemory()
    project = project_root(root)
    place = memory_place(settings.memory, settings.name, file.dialect, project)
    if reason := _unusable(place):
        return _without(file, reason)
    claim = _claim(file, settings, place, project, wanted.origins or origins_of(file))
    withheld = trust.why_not(claim)
    is_allowed = not withheld
    if withheld and not place.is_in_project:
        return _without(file, withheld)
    hide = redactor((*credentials(os.environ), *wanted.secrets))
    folder = NotesFolder(place.base, place.folder, place.ignored)
    notes = PromptNotes() if wanted.resumed else read_notes(folder)
    limit = settings.tool_result_limit
    tool = memory_tool(folder, hide, limit, is_dry=wanted.is_dry) if is_allowed and _keeps_tool(settings) else None
    warnings = [f"{file.place('memory')}: memory: {notes.problem}"] if notes.problem else []
    warnings += [_not_offered(file, withheld)] if withheld else trust.check(claim)
    return AgentMemory(_text(place, hide(notes.text), tool), tool, withheld, tuple(warnings))


def memory_claim(file: SpecialistFile, settings: Specialist, root: Path, origins: ValueOrigins) -> Claim | None:
    """Return the permission that a file needs for the tool that edits its notes; None if it does not ask for it."""
    if settings.memory is None or not _keeps_tool(settings):
        return None
    project = project_root(root)
    place = memory_place(settings.memory, settings.name, file.dialect, project)
    return _claim(file, settings, place, project, origins)


def _keeps_tool(settings: Specialist) -> bool:
    return bool(resolve_tools(None, settings.disallowed_tools, [NAME]).names)


def _text(place: MemoryPlace, notes: str, tool: Tool | None) -> AddedText | None:
    if not notes and tool is None:
        return None
    return AddedText(f"notes {place.shown}/{MAIN}", prompts.notes(notes, MAIN, tool.name if tool else ""))


def _unusable(place: MemoryPlace) -> str:
    """Return why notes can be neither read nor written; empty if they can."""
    if not place.base.is_absolute():
        return "there is no home folder for the notes of the user"
    folders = [place.base.joinpath(*place.folder.split("/")[:count]) for count in range(1, place.folder.count("/") + 2)]
    owner = ownership_problem(place.base, *folders, folders[-1] / MAIN) if place.is_in_project else None
    return f"its notes are not used: {owner}" if owner else ""


def _without(file: SpecialistFile, reason: str) -> AgentMemory:
    return AgentMemory(withheld=reason, warnings=(_not_offered(file, reason),))


def _not_offered(file: SpecialistFile, reason: str) -> str:
    return f"{file.place('memory')}: memory: `{NAME}` is not offered: {reason}"


def _claim(
    file: SpecialistFile, settings: Specialist, place: MemoryPlace, project: Path, origins: ValueOrigins
) -> Claim:
    does = "write notes in" if place.is_in_project else "read and write your notes in"
    demands = demanded(
        origins,
        # The name is that of the folder.
        ("memory", "name", "disallowed_tools"),
        f"{file.place('memory')}: memory",
        f"{does} {place.shown}",
        f"memory {settings.memory} {place.folder}",
    )
    return Claim(file.path, file.digest, project, demands)

"""Add skills, instructions and notes to the prompt."""

import hashlib
import os
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from run_specialist import prompts
from run_specialist.errors import UsageError, errors_as
from run_specialist.loop.compaction import tokens
from run_specialist.safety.redact import credentials, redactor
from run_specialist.spawning.trust import Claim, Demand, RunContext
from run_specialist.specialist.dialects import home_path
from run_specialist.specialist.fields import MemoryScope, Specialist
from run_specialist.specialist.loader import SpecialistFile
from run_specialist.specialist.problems import Problem
from run_specialist.specialist.project import ownership_problem
from run_specialist.specialist.skills import find_skill, missing_skill, read_instructions
from run_specialist.specialist.tool_names import MEMORY, resolve_tools
from run_specialist.store.location import default_folder
from run_specialist.tools.base import Tool
from run_specialist.tools.memory import MAIN, NotesFolder, memory_tool, read_notes


@dataclass(frozen=True, slots=True)
class AddedText:
    """A text that is added to a prompt."""

    name: str
    """`skill NAME`, or the name of the file with the instructions."""
    text: str

    @property
    def tokens(self) -> int:
        """Estimated size of the text [tokens]."""
        return tokens(len(self.text))

    def as_json(self) -> dict[str, str | int]:
        """Return the object that `show --json` prints."""
        return {"name": self.name, "chars": len(self.text), "tokens": self.tokens}


@dataclass(frozen=True, slots=True)
class PromptTexts:
    """All texts that are added to a prompt."""

    texts: Sequence[AddedText] = ()
    folders: Sequence[str] = ()
    """Folders of skills below the root, whose other files can be read regardless of `paths`."""
    warnings: Sequence[str] = ()

    def followed_by(self, text: AddedText | None) -> "PromptTexts":
        """Return the same with one more text, if there is one."""
        return self if text is None else replace(self, texts=(*self.texts, text))

    def added_to(self, prompt: str) -> str:
        """Return a prompt followed by the texts."""
        return "\n\n".join([prompt, *(one.text for one in self.texts)]) if self.texts else prompt


def read_texts(context: RunContext) -> PromptTexts:
    """Read the texts that a specialist asks for; blocks while it reads files.

    Raises UsageError, with the place in the file, for a skill that does not exist or cannot be read, and NotTrusted for
    a skill of the user that a project's file must not use yet.
    """
    texts, folders, warnings = list[AddedText](), list[str](), [*context.trust.check(skills_claim(context))]
    for name in dict.fromkeys(context.settings.skills):
        with errors_as(UsageError, context.place("skills"), UsageError):
            skill = find_skill(name, context.file, context.project)
        folder, top = skill.folder.resolve(), context.root.resolve()
        # A folder without other files, or outside the root, has nothing to read.
        below = folder.relative_to(top).as_posix() if skill.has_others and folder.is_relative_to(top) else ""
        texts.append(AddedText(f"skill {skill.name}", prompts.skill(skill.name, skill.text, below)))
        folders += [below] if below else []
    if context.settings.project_instructions:
        found = read_instructions(context.project, context.file.dialect)
        if found.text:
            texts.append(AddedText(found.name, prompts.project_instructions(found.name, found.text)))
        if found.problem:
            warnings.append(f"{context.place('project_instructions')}: {found.problem}")
    return PromptTexts(tuple(texts), tuple(folders), tuple(warnings))


def skills_claim(context: RunContext) -> Claim:
    """Return the permission that a file needs for skills from the user's home folder, which its model could reveal."""
    demands = list[Demand]()
    for name in dict.fromkeys(context.settings.skills):
        with suppress(UsageError):
            skill = find_skill(name, context.file, context.project)
            if skill.is_own:
                action = f"add your skill {skill.name} ({skill.folder}) to its prompt"
                demands += context.demands(["skills"], action, f"skill {skill.folder}")
    return context.claim(demands)


def with_skills_checked(files: Sequence[SpecialistFile], root: Path) -> list[SpecialistFile]:
    """Return files, each with an error for its first skill that cannot be used in a folder."""
    checked = []
    for file in files:
        why = missing_skill(file, file.specialist, root) if file.specialist else ""
        problem = Problem(file.path, file.lines.get("skills", 1), 1, "skills", why, "error")
        checked.append(file.with_problems((*file.problems, problem)) if why else file)
    return checked


# Locate the notes that a specialist keeps from run to run.
#
# Source for the folders of Claude Code: https://code.claude.com/docs/en/sub-agents, "Enable persistent memory".

_CLAUDE = {"user": "~/.claude/agent-memory", "project": ".claude/agent-memory", "local": ".claude/agent-memory-local"}
_OWN = {"project": ".run-specialist/memory", "local": ".run-specialist/memory-local"}
_PLAIN = re.compile(r"[^\W_](?:[\w .-]{0,62}\w)?")
_UNUSUAL = re.compile(r"[^\w-]+")
# Number of characters of an unusual name that are kept in its folder's name.
_KEPT = 40


def memory_place(scope: MemoryScope, name: str, dialect: str, project: Path) -> NotesFolder:
    """Return the place of a specialist's notes; `base` is not absolute if there is no home folder.

    dialect: Agents of Claude Code use the folders of Claude Code, so that both share the same notes.
    """
    own = folder_name(name)
    if scope == "user":
        folder = home_path(_CLAUDE["user"]) if dialect == "claude" else default_folder() / "memory"
        return NotesFolder(folder, own, is_in_project=False)
    above = (_CLAUDE if dialect == "claude" else _OWN)[scope]
    return NotesFolder(project, f"{above}/{own}", above if scope == "local" else "")


def folder_name(name: str) -> str:
    """Return a name that is safe for a folder; equal to the given one if that is safe.

    As in Claude Code, a colon after the name of a plugin becomes a hyphen.
    """
    plain = name.replace(":", "-")
    if _PLAIN.fullmatch(plain):
        return plain
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{_UNUSUAL.sub('-', name).strip('-_')[:_KEPT]}-{digest}".lstrip("-")


@dataclass(frozen=True, slots=True)
class AgentMemory:
    """A specialist's notes, as one run gets them."""

    text: AddedText | None = None
    """The addition to the prompt; None if there is none."""
    tool: Tool | None = None
    withheld: str = ""
    """Why the tool is missing although the file has the key; empty if it is not missing."""
    warnings: tuple[str, ...] = ()


def agent_memory(context: RunContext, secrets: Sequence[str] = (), *, is_dry: bool = False) -> AgentMemory:
    """Read the notes of a specialist, and return the tool that keeps them; blocks while it reads files.

    A project's file needs trust to write notes. It also needs trust to read those of the user, which come from other
    projects; those of the project are read like its AGENTS.md.
    secrets: credentials to mask in written notes, in addition to those in the environment.
    is_dry: whether no file may be changed.
    """
    settings, trust = context.settings, context.trust
    if settings.memory is None:
        return AgentMemory()

    def not_offered(reason: str) -> str:
        return f"{context.place('memory')}: `{MEMORY}` is not offered: {reason}"

    place = memory_place(settings.memory, settings.name, context.file.dialect, context.project)
    claim, reason = _claim(context, place), ""
    withheld = trust.why_not(claim)
    if not place.base.is_absolute():
        reason = "there is no home folder for the notes of the user"
    elif not place.is_in_project:
        reason = withheld
    else:
        path = place.base / place.folder
        folders = [one for one in reversed(path.parents) if one.is_relative_to(place.base)]
        if owner := ownership_problem(place.base, *folders[1:], path, path / MAIN):
            reason = f"its notes are not used: {owner}"
    if reason:
        return AgentMemory(withheld=reason, warnings=(not_offered(reason),))
    hide = redactor((*credentials(os.environ), *secrets))
    notes, problem = ("", "") if context.resumed else read_notes(place)
    limit = settings.tool_result_limit
    tool = memory_tool(place, hide, limit, is_dry=is_dry) if not withheld and _keeps_tool(settings) else None
    warnings = [f"{context.place('memory')}: {problem}"] if problem else []
    warnings += [not_offered(withheld)] if withheld else trust.check(claim)
    text = None
    if (known := hide(notes)) or tool:
        text = AddedText(f"notes {place.shown}/{MAIN}", prompts.notes(known, MAIN, tool.name if tool else ""))
    return AgentMemory(text, tool, withheld, tuple(warnings))


def memory_claim(context: RunContext) -> Claim | None:
    """Return the permission that a file needs for the tool that edits its notes; None if it does not ask for it."""
    settings = context.settings
    if settings.memory is None or not _keeps_tool(settings):
        return None
    return _claim(context, memory_place(settings.memory, settings.name, context.file.dialect, context.project))


def _keeps_tool(settings: Specialist) -> bool:
    return bool(resolve_tools(None, settings.disallowed_tools, [MEMORY]).names)


def _claim(context: RunContext, place: NotesFolder) -> Claim:
    does = "write notes in" if place.is_in_project else "read and write your notes in"
    # The name is that of the folder.
    keys, fingerprint = ("memory", "name", "disallowed_tools"), f"memory {context.settings.memory} {place.folder}"
    return context.claim(context.demands(keys, f"{does} {place.shown}", fingerprint))

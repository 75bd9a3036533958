"""Texts from other files: skills, and the instructions of the project.

Source: https://agentskills.io/specification
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from run_specialist.errors import UsageError, errors_as
from run_specialist.safety import safe_files
from run_specialist.specialist.dialects import config_folder, home_path
from run_specialist.specialist.fields import Specialist
from run_specialist.specialist.front_matter import read
from run_specialist.specialist.loader import SpecialistFile
from run_specialist.specialist.positions import read_file
from run_specialist.specialist.problems import Problems, shown
from run_specialist.specialist.project import ownership_problem, project_root

SKILL = "SKILL.md"
LARGEST = 256 * 1024
"""Maximum size of a `SKILL.md` [bytes]."""
_PROGRAMS = ("agents", "claude", "github", "gemini", "opencode", "codex", "cursor")
_IN_PROJECT = tuple(f".{program}/skills" for program in _PROGRAMS)
_AT_HOME = tuple(f"~/.{'copilot' if program == 'github' else program}/skills" for program in _PROGRAMS)
_FOLDERS_OF_AGENTS = frozenset({"agents", "agent", "specialists"})
_NAME = re.compile(r"(?!\.)[\w.-]{1,64}")


@dataclass(frozen=True, slots=True)
class Skill:
    """A skill that was read."""

    name: str
    text: str
    """The body of its `SKILL.md`."""
    folder: Path
    has_others: bool
    """Whether its folder holds other files or folders."""
    is_own: bool
    """Whether it is in a folder of the user, and not of the project."""


def find_skill(name: str, file: SpecialistFile, project: Path) -> Skill:
    """Return a skill by its folder's name: beside the specialist's folder, in the project, or of the user.

    name: As in the file; the name of a plugin before a colon is ignored.
    project: Project in which the specialist works.
    Raises UsageError if there is none, or if it cannot be read.
    """
    bare = name.rpartition(":")[2].strip()
    if not _NAME.fullmatch(bare):
        raise UsageError(f"{shown(name)} is not a valid skill name")
    places = [*_places(file, project)]
    # The reference implementation of the specification accepts the name in lower case, too.
    files = ((one / bare / name, top) for one, top in places for name in (SKILL, SKILL.lower()))
    path, top = next((one for one in files if os.path.lexists(one[0])), (None, None))
    if path is None:
        there = " or ".join(dict.fromkeys(shown(str(one), None) for one, _ in places if one.is_dir()))
        raise UsageError(f"no skill named {shown(bare)}: there is no {bare}/{SKILL} in {there or places[0][0]}")
    where = shown(str(path), None)
    if top and (owner := ownership_problem(top, path.parent.parent, path.parent)):
        raise UsageError(f"the skill {bare} is not read: {owner}")
    with errors_as(UsageError, f"the skill {bare} cannot be read: {where}", OSError, ValueError):
        text = read(read_file(path, top, LARGEST), Problems(path)).body.strip()
        has_others = len([*path.parent.iterdir()]) > 1
    if not text:
        raise UsageError(f"the skill {bare} is empty: {where}")
    return Skill(bare, text, path.parent, has_others, top is None)


def _places(file: SpecialistFile, project: Path) -> Iterator[tuple[Path, Path | None]]:
    """Yield the folders that may contain skills, nearest first, with the project that links must not lead out of."""
    beside = next((one.parent for one in file.path.absolute().parents if one.name in _FOLDERS_OF_AGENTS), None)
    # A file of a project may be found by a link in the user's own folder, whose skills come last.
    if beside is not None and (file.project is None or beside.is_relative_to(file.project.absolute())):
        yield beside / "skills", file.project
    for folder in _IN_PROJECT:
        yield project / folder, project
    for own in (*map(home_path, _AT_HOME), config_folder() / "opencode" / "skills"):
        if own.is_absolute():
            yield own, None


LARGEST_INSTRUCTIONS = 32 * 1024
"""Maximum size of the text that is added to a prompt [bytes]; the same as in Codex."""
_NAMES = ("AGENTS.md", "CLAUDE.md")


@dataclass(frozen=True, slots=True)
class ProjectInstructions:
    """The instructions of a project."""

    name: str
    """Name of the file; empty if there is none."""
    text: str
    problem: str = ""
    """Why some or all of the text is missing."""


def read_instructions(project: Path, dialect: str) -> ProjectInstructions:
    """Read the first of the two files that exists at the top of a project; symlinks must not lead out of it.

    dialect: For `claude`, CLAUDE.md comes first, otherwise AGENTS.md.
    """
    for name in _NAMES[::-1] if dialect == "claude" else _NAMES:
        path = project / name
        try:
            with safe_files.open_file(path, project) as file:
                data = file.read(LARGEST_INSTRUCTIONS + 1)
        except FileNotFoundError:
            continue
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            return ProjectInstructions(name, "", f"{shown(str(path), None)} cannot be read: {reason}")
        if owner := ownership_problem(project, path):
            return ProjectInstructions(name, "", f"{name} is not read: {owner}")
        is_cut = len(data) > LARGEST_INSTRUCTIONS
        text = data[:LARGEST_INSTRUCTIONS].decode("utf-8-sig", "ignore" if is_cut else "replace").strip()
        problem = f"{name} is cut after {LARGEST_INSTRUCTIONS // 1024} KiB" if is_cut else ""
        return ProjectInstructions(name, text, problem)
    return ProjectInstructions("", "")


def missing_skill(file: SpecialistFile, settings: Specialist, root: Path) -> str:
    """Return why a skill that a specialist names cannot be used, in one clause; empty if all can."""
    try:
        for name in settings.skills:
            find_skill(name, file, project_root(root))
    except UsageError as error:
        return str(error)
    return ""

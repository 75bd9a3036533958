"""Locate the notes that a specialist keeps from run to run.

Source for the folders of Claude Code: https://code.claude.com/docs/en/sub-agents, "Enable persistent memory".
"""

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from run_specialist.specialist.fields import MemoryScope
from run_specialist.specialist.home import home_path

_CLAUDE = {"user": "~/.claude/agent-memory", "project": ".claude/agent-memory", "local": ".claude/agent-memory-local"}
_OWN = {"project": ".run-specialist/memory", "local": ".run-specialist/memory-local"}
_PLAIN = re.compile(r"[^\W_](?:[\w .-]{0,62}\w)?")
_UNUSUAL = re.compile(r"[^\w-]+")
_KEPT = 40
"""Number of characters of an unusual name that are kept in its folder's name."""


@dataclass(frozen=True, slots=True)
class MemoryPlace:
    """The folder with the notes of one specialist, which need not exist."""

    base: Path
    """The project, or the folder with the user's own notes; symlinks in its path are followed."""
    folder: str
    """Path of the folder below `base`, with `/`; symlinks in it are not followed."""
    is_in_project: bool
    ignored: str = ""
    """Folder below `base` that git should ignore; empty if there is none."""

    @property
    def shown(self) -> str:
        """The folder as shown to people and models: relative to the project, or its absolute path."""
        return self.folder if self.is_in_project else str(self.base / self.folder)


def memory_place(scope: MemoryScope, name: str, dialect: str, project: Path) -> MemoryPlace:
    """Return the place of a specialist's notes; `base` is not absolute if there is no home folder.

    dialect: Agents of Claude Code use the folders of Claude Code, so that both share the same notes.
    """
    own = folder_name(name)
    of_program = _CLAUDE if dialect == "claude" else _OWN
    if scope == "user":
        return MemoryPlace(_user_folder(dialect), own, is_in_project=False)
    above = of_program[scope]
    return MemoryPlace(project, f"{above}/{own}", is_in_project=True, ignored=above if scope == "local" else "")


def folder_name(name: str) -> str:
    """Return a name that is safe for a folder; equal to the given one if that is safe.

    As in Claude Code, a colon after the name of a plugin becomes a hyphen.
    """
    plain = name.replace(":", "-")
    if _PLAIN.fullmatch(plain):
        return plain
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{_UNUSUAL.sub('-', name).strip('-_')[:_KEPT]}-{digest}".lstrip("-")


def _user_folder(dialect: str) -> Path:
    if dialect == "claude":
        return home_path(_CLAUDE["user"])
    import platformdirs  # noqa: PLC0415 - takes 20 ms, needed only for notes of the user

    return platformdirs.user_data_path("run-specialist", appauthor=False) / "memory"

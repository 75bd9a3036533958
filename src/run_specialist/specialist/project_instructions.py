"""Read the instructions that a project has for all agents, AGENTS.md or CLAUDE.md."""

from dataclasses import dataclass
from pathlib import Path

from run_specialist.safe_files import safe_open
from run_specialist.specialist.ownership import ownership_problem
from run_specialist.specialist.problems import shown

LARGEST = 32 * 1024
"""Maximum size of the text that is put into a prompt [bytes]; Codex has the same."""
_NAMES = ("AGENTS.md", "CLAUDE.md")


@dataclass(frozen=True, slots=True)
class ProjectInstructions:
    """The instructions of a project."""

    name: str
    """Name of the file; empty if there is none."""
    text: str
    problem: str = ""
    """Why a part, or all, is missing."""


def read_instructions(project: Path, dialect: str) -> ProjectInstructions:
    """Read the first existing one of the two files at the top of a project; links must not lead out of it.

    dialect: For `claude` CLAUDE.md is the first one, for all others AGENTS.md.
    """
    for name in _NAMES[::-1] if dialect == "claude" else _NAMES:
        path = project / name
        try:
            with safe_open.open_file(path, project) as file:
                data = file.read(LARGEST + 1)
        except FileNotFoundError:
            continue
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            return ProjectInstructions(name, "", f"{shown(str(path), None)} cannot be read: {reason}")
        if owner := ownership_problem(project, path):
            return ProjectInstructions(name, "", f"{name} is not read: {owner}")
        text = data[:LARGEST].decode("utf-8-sig", "ignore" if len(data) > LARGEST else "replace").strip()
        cut = f"{name} is cut after {LARGEST // 1024} KiB" if len(data) > LARGEST else ""
        return ProjectInstructions(name, text, cut)
    return ProjectInstructions("", "")

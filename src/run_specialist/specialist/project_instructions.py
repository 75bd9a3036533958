"""Read a project's instructions for all agents, AGENTS.md or CLAUDE.md."""

from dataclasses import dataclass
from pathlib import Path

from run_specialist.safe_files import safe_open
from run_specialist.specialist.ownership import ownership_problem
from run_specialist.specialist.problems import shown

LARGEST = 32 * 1024
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

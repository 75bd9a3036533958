"""Names of notes: only Markdown files below one folder that no other program reads or runs by itself."""

import re

from run_specialist.errors import ToolError

MAIN = "MEMORY.md"
"""The note that is added to the prompt."""
_PART = re.compile(r"[^\W_](?:[\w .-]{0,62}\w)?")
_DEEPEST = 3
_ROOT = re.compile(r"(?:\./)?/?(?:memories(?:/|$))?")
"""Prefix of paths from models that know the Messages API's memory tool."""
_READ_BY_PROGRAMS = frozenset(
    {"agents.md", "agents.override.md", "claude.md", "claude.local.md", "gemini.md", "skill.md"}
    | {"copilot-instructions.md", "warp.md", "crush.md", "qwen.md"}
)


def note_name(path: str) -> str:
    """Return the path of a note below the notes folder, with `/`; empty for the folder itself.

    Raises ToolError for anything except a Markdown file there.
    """
    name = _ROOT.sub("", path.strip(), count=1).rstrip("/")
    if not name:
        return ""
    parts = name.split("/")
    if not all(map(_PART.fullmatch, parts)) or len(parts) > _DEEPEST:
        raise ToolError(f"{_shown(path)} is no name of a note; use a name such as {MAIN} or topics/tests.md")
    last = parts[-1].lower()
    if not last.endswith(".md"):
        raise ToolError(f"{_shown(path)} is no name of a note: notes are Markdown files, whose names end in .md")
    if last in _READ_BY_PROGRAMS or last.endswith((".agent.md", ".instructions.md", ".prompt.md", ".chatmode.md")):
        raise ToolError(f"{_shown(path)} is a name that other programs read by themselves; use another one")
    return name


def _shown(path: str) -> str:
    return repr(path if len(path) <= 100 else f"{path[:97]}...")  # noqa: PLR2004 - for a message

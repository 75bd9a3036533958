"""Files and folders that no command may change: what other programs run or obey later, outside of the sandbox."""

import re

from run_specialist.tools.editing.protected import reason_to_protect
from run_specialist.tools.sandbox.secret_files import is_secret

_NAMES = (
    # Hooks and settings of git run programs.
    ".git", ".gitmodules", ".husky",
    # Agents, their servers, instructions and skills.
    ".claude", ".github", ".gemini", ".opencode", ".codex", ".cursor", ".copilot", ".agents", ".run-specialist",
    ".mcp.json", "AGENTS.md", "CLAUDE.md", "CLAUDE.local.md", "GEMINI.md", "SKILL.md", "specialists", "pyproject.toml",
    # Tasks of editors, and commands of shells that enter a folder.
    ".vscode", ".idea", ".devcontainer", ".envrc", ".mise.toml", "mise.toml",
)  # fmt: skip
_FOLDED = frozenset(name.casefold() for name in _NAMES)
_CREATED_BY_TOOLS = frozenset({".gitignore", ".gitattributes"})
"""Test runners and package managers write these into the folders that they make; they cannot show more than commands
see of a writable folder anyway."""
PATTERN = f"({'|'.join(map(re.escape, _NAMES))})"
"""Regular expression for the most important names."""


def is_protected(relative: str) -> bool:
    """Return whether a file or folder must not be changed, by its own name.

    relative: path relative to the root, with `/`. Secrets do not count: they are hidden instead.
    """
    name = relative.rpartition("/")[2]
    if name.casefold() in _CREATED_BY_TOOLS:
        return False
    return name.casefold() in _FOLDED or (not is_secret(relative) and bool(reason_to_protect(name)))

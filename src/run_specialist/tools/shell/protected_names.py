"""Files and folders that no command may change: what other programs run or obey later, outside of the sandbox."""

import re

_NAMES = frozenset(
    {
        # Hooks and settings of git run programs.
        ".git", ".gitmodules", ".husky",
        # Agents, their servers, instructions and skills.
        ".claude", ".github", ".gemini", ".opencode", ".codex", ".cursor", ".copilot", ".agents", ".run-specialist",
        ".mcp.json", "agents.md", "claude.md", "claude.local.md", "gemini.md",
        # Tasks of editors, and commands of shells that enter a folder.
        ".vscode", ".idea", ".devcontainer", ".envrc", ".tool-versions", ".mise.toml", "mise.toml",
    }
)  # fmt: skip
PATTERN = "(" + "|".join(re.escape(name) for name in sorted(_NAMES)) + ")"
"""Regular expression for these names."""
_AT_TOP = frozenset({"specialists", "pyproject.toml"})
"""Names that count at the top of the root only."""
_ENDINGS = re.compile(r".*\.agent\.md", re.DOTALL)


def is_protected(relative: str) -> bool:
    """Return whether a file or folder must not be changed, by its own name.

    relative: path relative to the root, with `/`.
    """
    name = relative.rpartition("/")[2].casefold()
    return name in _NAMES or (relative.casefold() in _AT_TOP) or _ENDINGS.fullmatch(name) is not None

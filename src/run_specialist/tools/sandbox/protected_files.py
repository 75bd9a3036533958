"""Files that no tool may change, whatever `writable` says: they decide what programs and agents may do later.

Those are the files of git, secrets, agent files, instructions and settings of this program and others, and the rules of
what the file tools can see.
"""

import os
import re
import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path

from run_specialist.specialist.dialects import DIALECTS, user_folders
from run_specialist.specialist.home import config_folder
from run_specialist.specialist.skills import SKILL
from run_specialist.tools.sandbox.secret_files import is_secret

_NAMES = (
    # Agents and skills of all programs; at any depth, because any folder can become the root of a project.
    *dict.fromkeys(folder.split("/")[0] for dialect in DIALECTS for folder in dialect.project),
    ".agents", ".copilot", ".run-specialist", ".kiro", ".roo", ".qwen", ".windsurf", ".continue", ".amazonq", ".junie",
    # Instructions and settings of agents.
    "AGENTS.md", "AGENTS.override.md", "CLAUDE.md", "CLAUDE.local.md", "GEMINI.md", "QWEN.md", SKILL, ".mcp.json",
    "opencode.json", "opencode.jsonc", ".cursorrules", ".windsurfrules", ".clinerules", ".roorules", ".roomodes",
    ".goosehints", ".aider.conf.yml", "pyproject.toml",
    # Hooks and settings of version control, and tasks that editors run.
    ".gitmodules", ".githooks", ".husky", ".hg", ".vscode", ".idea", ".zed", ".devcontainer", ".devcontainer.json",
    # Commands of shells that enter a folder.
    ".envrc", ".mise", ".mise.toml", ".mise.local.toml", "mise.toml", "mise.local.toml", ".tool-versions",
)  # fmt: skip
"""Files, and folders with all that is in them."""
_PATHS = (".config/mise", ".config/mise.toml", ".config/mise.local.toml", "mise/config.toml", "mise/config.local.toml")
"""Names that are protected only in a certain folder."""
_ENDINGS = (".agent.md", ".chatmode.md", ".code-workspace")
_CREATED_BY_COMMANDS = frozenset({".gitignore", ".gitattributes"})
"""Test runners and package managers write these into the folders that they make; they cannot show more than commands
see of a writable folder anyway."""
_FOLDED = frozenset(name.casefold() for name in _NAMES)
_GIT = re.compile(r"\.git|git~[0-9]+")
_DATA = "run-specialist"

PROTECTED_NAMES = "({}|git~[0-9]+|[^/]*({}))".format(
    "|".join(map(re.escape, (".git", *_NAMES, *_PATHS))), "|".join(map(re.escape, _ENDINGS))
)
"""Regular expression for the names that the sandbox of macOS refuses to change."""


def reason_to_protect(relative: str) -> str:
    """Return why a file must not be changed, as a clause; empty if it may be.

    relative: path relative to the root, with `/`.
    """
    parts = [_plain(part) for part in relative.split("/")]
    if any(_GIT.fullmatch(part) for part in parts):
        return "it belongs to git"
    if is_secret(relative) or is_secret("/".join(parts)):
        return "such files hold secrets"
    found = next((name for at in range(len(parts)) if (name := _protected_name(parts[: at + 1]))), "")
    if not found and parts[-1] in _CREATED_BY_COMMANDS:
        found = parts[-1]
    return f"{found} decides what agents and programs may do" if found else ""


def is_protected_from_commands(relative: str) -> bool:
    """Return whether a command must not change a file or folder, by its own name; folders above it do not count.

    relative: path relative to the root, with `/`. Secrets do not count: they are hidden instead.
    """
    parts = [_plain(part) for part in relative.rsplit("/", 2)[-2:]]
    return bool(_GIT.fullmatch(parts[-1]) or _protected_name(parts))


def _protected_name(parts: Sequence[str]) -> str:
    """Return the end of a path if it is protected by name; empty if it is not.

    parts: the components, as `_plain` returns them.
    """
    name, path = parts[-1], "/".join(parts[-2:])
    if name in _FOLDED or name.endswith(_ENDINGS):
        return name
    return path if path in _PATHS else ""


def own_folders(more: Iterable[Path] = ()) -> tuple[Path, ...]:
    """Return the real paths of the folders and files with agents, settings, permissions and runs of the user.

    more: further ones.
    """
    return tuple(Path(os.path.realpath(path)) for path in (*_of_user(), *more) if path.is_absolute())


def _of_user() -> tuple[Path, ...]:
    import platformdirs  # noqa: PLC0415 - takes 20 ms, needed only for files that change something

    data = platformdirs.user_data_path(_DATA, appauthor=False)
    return (config_folder() / _DATA, data, *user_folders())


def _plain(name: str) -> str:
    """Return a name as the least particular file systems see it."""
    # Some ignore case, invisible characters, and dots and blanks at the end; Windows opens a stream after a colon.
    kept = "".join(char for char in unicodedata.normalize("NFKC", name) if unicodedata.category(char) != "Cf")
    return kept.casefold().partition(":")[0].rstrip(". ")

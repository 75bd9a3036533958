"""Files that no tool may change, whatever `writable` says: they decide what programs and agents may do later.

Those are the files of git, secrets, agent files, instructions and settings of this program and others, and the rules of
what the file tools can see.
"""

import os
import re
import unicodedata
from collections.abc import Iterable
from pathlib import Path

from run_specialist.specialist.dialects import DIALECTS, user_folders
from run_specialist.specialist.home import config_folder
from run_specialist.specialist.skills import SKILL
from run_specialist.tools.sandbox.secret_files import is_secret

_IMPORTANT_FOLDERS = (
    # Agents and skills of all programs; at any depth, because any folder can become the root of a project.
    *dict.fromkeys(folder.split("/")[0] for dialect in DIALECTS for folder in dialect.project),
    ".agents", ".copilot", ".run-specialist",
    # Hooks of git, and tasks that editors run.
    ".husky", ".vscode", ".idea", ".devcontainer",
)  # fmt: skip
_IMPORTANT_FILES = (
    "pyproject.toml", ".mcp.json", ".gitmodules",
    "AGENTS.md", "CLAUDE.md", "CLAUDE.local.md", "GEMINI.md", SKILL,
    # Commands of shells that enter a folder.
    ".envrc", ".mise.toml", "mise.toml",
)  # fmt: skip
_CREATED_BY_COMMANDS = frozenset({".gitignore", ".gitattributes"})
"""Test runners and package managers write these into the folders that they make; they cannot show more than commands
see of a writable folder anyway."""
_FOLDERS = frozenset({*_IMPORTANT_FOLDERS, ".githooks"})
_FILES = frozenset(
    name.casefold()
    for name in (
        *_IMPORTANT_FILES, *_CREATED_BY_COMMANDS,
        "opencode.json", "opencode.jsonc", ".cursorrules", "AGENTS.override.md", ".tool-versions",
    )
)  # fmt: skip
_ENDINGS = (".agent.md", ".chatmode.md")
_GIT = re.compile(r"\.git|git~[0-9]+")
_DATA = "run-specialist"

_IMPORTANT = (".git", *_IMPORTANT_FOLDERS, *_IMPORTANT_FILES)
_IMPORTANT_FOLDED = frozenset(name.casefold() for name in _IMPORTANT)
IMPORTANT_NAMES = f"({'|'.join(map(re.escape, _IMPORTANT))})"
"""Regular expression for the names that the sandbox of macOS refuses; new files of other names are set aside later."""


def reason_to_protect(relative: str) -> str:
    """Return why a file must not be changed, as a clause; empty if it may be.

    relative: path relative to the root, with `/`.
    """
    parts = [_plain(part) for part in relative.split("/")]
    if any(_GIT.fullmatch(part) for part in parts):
        return "it belongs to git"
    if is_secret(relative) or is_secret("/".join(parts)):
        return "such files hold secrets"
    is_closed = parts[-1] in _FILES or parts[-1].endswith(_ENDINGS)
    if found := next((part for part in parts if part in _FOLDERS), parts[-1] if is_closed else ""):
        return f"{found} decides what agents and programs may do"
    return ""


def is_protected_from_commands(relative: str) -> bool:
    """Return whether a command must not change a file or folder, by its own name.

    relative: path relative to the root, with `/`. Secrets do not count: they are hidden instead.
    """
    name = relative.rpartition("/")[2]
    if name.casefold() in _CREATED_BY_COMMANDS:
        return False
    return name.casefold() in _IMPORTANT_FOLDED or (not is_secret(relative) and bool(reason_to_protect(name)))


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

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

_FOLDERS = frozenset(
    {
        # Agents and skills of all programs; at any depth, because any folder can become the root of a project.
        *(folder.split("/")[0] for dialect in DIALECTS for folder in dialect.project),
        ".agents", ".copilot", ".run-specialist",
        # Hooks of git, and tasks that editors run.
        ".husky", ".githooks", ".vscode", ".idea", ".devcontainer",
    }
)  # fmt: skip
_FILES = frozenset(
    {
        "pyproject.toml", ".mcp.json", "opencode.json", "opencode.jsonc", ".cursorrules",
        "agents.md", "agents.override.md", "claude.md", "claude.local.md", "gemini.md", SKILL.lower(),
        ".gitignore", ".gitmodules", ".gitattributes",
        # Commands of shells that enter a folder.
        ".tool-versions", ".mise.toml", "mise.toml",
    }
)  # fmt: skip
_ENDINGS = (".agent.md", ".chatmode.md")
_GIT = re.compile(r"\.git|git~[0-9]+")
_DATA = "run-specialist"


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

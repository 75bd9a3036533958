"""Files that no tool may change, whatever `writable` says: they decide what programs and agents may do later.

Those are the files of git, secrets, agent files, instructions and settings of this program and others, and the rules of
what the file tools can see.
"""

import os
import re
import unicodedata
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from run_specialist.specialist.dialects import DIALECTS, user_folders
from run_specialist.specialist.home import config_folder
from run_specialist.specialist.skills import SKILL
from run_specialist.tools.sandbox.secret_files import is_secret

_FOLDERS = frozenset({folder.split("/")[0] for dialect in DIALECTS for folder in dialect.project} | {".agents"})
"""Names of folders with agent files and settings, at any depth: any folder can become the root of a project."""
_FILES = frozenset(
    {
        "pyproject.toml", ".mcp.json", "opencode.json", "opencode.jsonc", ".cursorrules",
        "agents.md", "agents.override.md", "claude.md", "claude.local.md", "gemini.md", SKILL.lower(),
        ".gitignore", ".gitmodules", ".gitattributes",
    }
)  # fmt: skip
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
    if found := next((part for part in parts if part in _FOLDERS), parts[-1] if parts[-1] in _FILES else ""):
        return f"{found} decides what agents and programs may do"
    return ""


def own_folders(more: Iterable[Path] = ()) -> tuple[Path, ...]:
    """Return the real paths of the folders and files with agents, settings, permissions and runs of the user.

    more: further ones.
    """
    return tuple(Path(os.path.realpath(path)) for path in (*_of_user(), *more) if path.is_absolute())


@cache
def _of_user() -> tuple[Path, ...]:
    import platformdirs  # noqa: PLC0415 - takes 20 ms, needed only for files that change something

    data = platformdirs.user_data_path(_DATA, appauthor=False)
    return (config_folder() / _DATA, data, *user_folders())


def _plain(name: str) -> str:
    """Return a name as the least particular file systems see it."""
    # Some ignore case, invisible characters, and dots and blanks at the end; Windows opens a stream after a colon.
    kept = "".join(char for char in unicodedata.normalize("NFKC", name) if unicodedata.category(char) != "Cf")
    return kept.casefold().partition(":")[0].rstrip(". ")

"""The part of the git folder that commands see: history and branches, without addresses, credentials and programs."""

import os
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from run_specialist.tools.sandbox.secret_files import is_secret

_LARGEST = 1_000_000
_SECTION = re.compile(r"\s*\[\s*([\w.-]+)")
_KEPT = {
    "core": frozenset({"repositoryformatversion", "filemode", "bare", "ignorecase", "precomposeunicode", "symlinks"}),
    "extensions": frozenset({"objectformat", "refstorage", "worktreeconfig", "compatobjectformat"}),
}
"""Settings that git needs to read a repository, by section."""
_CONFIGS = ("config", "config.worktree")


@dataclass(frozen=True, slots=True)
class GitFolder:
    """The git folder of a root."""

    places: Sequence[Path]
    """The paths that are shown in addition to the root."""
    configs: Sequence[Path]
    """Files with settings, which are replaced by harmless ones."""
    hidden: Sequence[Path]
    """Files that cannot be opened."""
    emptied: Sequence[Path] = ()
    """Folders that appear empty."""


def git_folder(root: Path) -> GitFolder | None:
    """Return the git folder of a root; None if there is none that may be shown.

    root: a real path. In a worktree the folder is elsewhere; it is used only if it names this root itself, so that no
    file of a project can open another folder.
    """
    own = root / ".git"
    with suppress(OSError, ValueError):
        if own.is_symlink():
            return None
        if own.is_dir():
            return _shown(own, ())
        if own.is_file() and (common := _of_worktree(root, own)):
            return _shown(common[0], (own, *common), common[1])
    return None


def _of_worktree(root: Path, pointer: Path) -> tuple[Path, Path] | None:
    """Return the git folders of the repository and of the worktree."""
    named = _read(pointer).removeprefix("gitdir:").strip()
    inner = Path(os.path.realpath(root / named))
    common = Path(os.path.realpath(inner / _read(inner / "commondir").strip()))
    is_known = os.path.realpath(_read(inner / "gitdir").strip()) == str(pointer)
    is_whole = inner.parent == common / "worktrees" and (common / "HEAD").is_file() and (common / "objects").is_dir()
    return (common, inner) if is_known and is_whole else None


def _shown(common: Path, places: Sequence[Path], inner: Path | None = None) -> GitFolder:
    folders = [common, *([inner] if inner else [])]
    configs = [folder / name for folder in folders for name in _CONFIGS if (folder / name).is_file()]
    hidden = [
        Path(entry.path)
        for folder in folders
        for entry in os.scandir(folder)
        if is_secret(entry.name) and entry.is_file(follow_symlinks=False)
    ]
    # The folders of submodules have their own settings.
    return GitFolder(places, configs, hidden, [path for path in (common / "modules",) if path.is_dir()])


def plain_config(path: Path) -> str:
    """Return the settings in a file that a repository needs, without remotes, which can contain credentials."""
    section, lines = "", []
    try:
        text = _read(path)
    except (OSError, ValueError):
        return ""
    for line in text.splitlines():
        if match := _SECTION.match(line):
            section = match[1].lower()
            lines += [f"[{section}]"] if section in _KEPT and line.strip().lower() == f"[{section}]" else []
            section = section if line.strip().lower() == f"[{section}]" else ""
        elif line.partition("=")[0].strip().lower() in _KEPT.get(section, ()) and not line.rstrip().endswith("\\"):
            lines.append(line)
    return "\n".join([*lines, ""])


def _read(path: Path) -> str:
    with path.open("rb") as file:
        return file.read(_LARGEST).decode("utf-8", "surrogateescape")

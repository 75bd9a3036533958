"""The protected files and folders below the writable places: found before a command, and put back after it.

Mounts protect those that exist. New ones, and symlinks, cannot be protected so, and are undone once no process of the
command is left.
"""

import os
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from run_specialist.errors import ToolError
from run_specialist.tools.shell.protected_names import is_protected

MOST_ENTRIES = 200_000
"""Maximum number of entries below the writable places."""


def protected_places(root: Path, writable: Sequence[str], closed: Sequence[Path] = ()) -> dict[str, str | None]:
    """Return the protected places below the writable ones, each with its target if it is a symlink.

    Symlinks are not followed, and protected folders are not looked into.
    closed: real paths that are protected too.
    Raises ToolError if there are too many files.
    """
    found: dict[str, str | None] = {}
    pending, seen, others = list(writable), 0, {str(path) for path in closed}
    while pending:
        here = pending.pop()
        with suppress(OSError), os.scandir(root / here) as entries:
            for entry in entries:
                seen += 1
                if seen > MOST_ENTRIES:
                    raise ToolError(f"there are more than {MOST_ENTRIES:,} files below the writable folders")
                path = f"{here}/{entry.name}" if here else entry.name
                if is_protected(path) or entry.path in others:
                    found[path] = str(Path(entry.path).readlink()) if entry.is_symlink() else None
                elif entry.is_dir(follow_symlinks=False):
                    pending.append(path)
    return found


def put_back(root: Path, writable: Sequence[str], before: Mapping[str, str | None]) -> list[str]:
    """Remove protected places that are new, and restore symlinks; return what was undone.

    before: as `protected_places` returned it before the command.
    Raises ToolError if there are too many files.
    """
    after = protected_places(root, writable)
    undone = []
    for path, target in after.items():
        if path not in before or before[path] != target:
            _remove(root / path)
            undone.append(path)
    for path, target in before.items():
        if target is not None and after.get(path) != target:
            with suppress(OSError):
                (root / path).symlink_to(target)
            undone.append(path)
    return list(dict.fromkeys(undone))


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()

"""Find the protected files and folders below the writable places before a command, and restore them after it.

Existing ones are protected by mounts. New ones, and symlinks, cannot be, and are undone once no process of the command
is left. New ones are renamed instead of deleted, because the user may have created them meanwhile.
"""

import os
import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from run_specialist.errors import ToolError
from run_specialist.tools.sandbox.protected_files import is_protected_from_commands

SET_ASIDE = ".undone-"
"""Suffix of a place that was undone; a random number follows."""
MOST_ENTRIES = 200_000
"""Maximum number of entries below the writable places."""

_LONGEST = 200
"""Length of the part of a name that is kept [characters]."""


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
                if is_protected_from_commands(path) or entry.path in others:
                    found[path] = str(Path(entry.path).readlink()) if entry.is_symlink() else None
                elif entry.is_dir(follow_symlinks=False):
                    pending.append(path)
    return found


def put_back(root: Path, writable: Sequence[str], before: Mapping[str, str | None]) -> list[str]:
    """Rename new protected places, and restore symlinks; return the undone changes.

    before: as `protected_places` returned it before the command.
    Raises ToolError if there are too many files.
    """
    after = protected_places(root, writable)
    undone = []
    for path, target in after.items():
        if path not in before or before[path] != target:
            _set_aside(root / path)
            undone.append(path)
    for path, target in before.items():
        if target is not None and after.get(path) != target:
            with suppress(OSError):
                (root / path).symlink_to(target)
            undone.append(path)
    return list(dict.fromkeys(undone))


def _set_aside(path: Path) -> None:
    """Rename a place, so that no program uses it; unlink a symlink."""
    with suppress(OSError):
        if path.is_symlink():
            path.unlink()
        else:
            path.rename(path.with_name(f"{path.name[:_LONGEST]}{SET_ASIDE}{secrets.token_hex(3)}"))

"""Who owns a folder: as with git's `safe.directory`, a project of another user is not taken unasked."""

import os
from contextlib import suppress
from pathlib import Path

VARIABLE = "SPECIALIST_SAFE_DIRECTORY"
"""Environment variable with folders that may belong to anybody, separated as in PATH; `*` means every folder."""

_ROOT = 0
"""Whoever is root can change everything anyway, so what root owns is not refused."""


def stranger(top: Path, *inside: Path) -> str | None:
    """Return what belongs to another user, in words: a folder, its `.git`, or a path inside; None for nothing.

    Links are looked at themselves, and so is what they lead to. On Windows nothing is looked at.
    Source: https://git-scm.com/docs/git-config#Documentation/git-config.txt-safedirectory
    """
    if not hasattr(os, "geteuid") or _is_listed(top):
        return None
    users = _users()
    for path in (top, top / ".git", *inside):
        for follow in (False, True):
            with suppress(OSError):
                owner = os.stat(path, follow_symlinks=follow).st_uid  # noqa: PTH116, Path.stat raises ValueError on a NUL in some versions only
                if owner not in users:
                    return f"{path} belongs to another user (uid {owner})"
    return None


def _users() -> set[int]:
    """Return the ids of this user: with sudo, that of the user who called it too."""
    users = {_ROOT, os.geteuid()}
    caller = os.environ.get("SUDO_UID", "")
    if os.geteuid() == _ROOT and caller.isdecimal():
        users.add(int(caller))
    return users


def _is_listed(folder: Path) -> bool:
    listed = [name for name in os.environ.get(VARIABLE, "").split(os.pathsep) if name]
    return "*" in listed or os.path.realpath(folder) in map(os.path.realpath, listed)

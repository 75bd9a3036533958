"""Ownership checks: projects of other users are not used unless allowed, as with git's `safe.directory`."""

import os
from contextlib import suppress
from pathlib import Path

VARIABLE = "SPECIALIST_SAFE_DIRECTORY"
"""Environment variable with folders that may belong to any user, separated as in PATH; `*` means every folder."""

_ROOT = 0
"""User id of root, who can change every file anyway and so counts as a trusted owner."""


def ownership_problem(top: Path, *inside: Path) -> str | None:
    """Return a sentence naming the first path that belongs to another user, or None.

    Checks the folder, its `.git` and the paths inside, both symlinks and their targets. On Windows nothing is checked.
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
    """Return the trusted user ids: root, the current user and, under sudo, the user who called it."""
    users = {_ROOT, os.geteuid()}
    caller = os.environ.get("SUDO_UID", "")
    if os.geteuid() == _ROOT and caller.isdecimal():
        users.add(int(caller))
    return users


def _is_listed(folder: Path) -> bool:
    listed = [name for name in os.environ.get(VARIABLE, "").split(os.pathsep) if name]
    return "*" in listed or os.path.realpath(folder) in map(os.path.realpath, listed)

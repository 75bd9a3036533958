"""Restrict the default store to its owner, even if it was created with wider permissions."""

import os
import sys
from contextlib import suppress
from pathlib import Path
from stat import S_IMODE, S_ISDIR, S_ISREG

from run_specialist.store.location import FOLDER

OTHERS = 0o077
"""Permission bits of group and others."""
_SUFFIXES = ("-wal", "-shm", "-journal", ".owners")
"""Suffixes of the files and folders that accompany a store."""


def make_private(store: Path) -> None:
    """Remove group and other permissions on a store, its companion files, and its folder if that is the default one.

    Symlinks and files of other users stay unchanged. Never raises.
    """
    if sys.platform == "win32":
        return
    # Any other folder, such as a home directory or `/dev`, contains more than a store.
    folder = [store.parent] if store.parent.name == FOLDER else []
    for path in (*folder, store, *(store.with_name(f"{store.name}{end}") for end in _SUFFIXES)):
        with suppress(OSError):
            found = path.lstat()
            is_ours = found.st_uid == os.geteuid() and (S_ISREG(found.st_mode) or S_ISDIR(found.st_mode))
            if is_ours and found.st_mode & OTHERS:
                path.chmod(S_IMODE(found.st_mode) & ~OTHERS)

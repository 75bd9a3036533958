"""The default store is for its owner alone, also where it was made with wider rights."""

import os
import sys
from contextlib import suppress
from pathlib import Path
from stat import S_IMODE, S_ISDIR, S_ISREG

from run_specialist.store.location import FOLDER

OTHERS = 0o077
"""The rights of all but the owner."""
_BESIDE = ("-wal", "-shm", "-journal", ".owners")
"""How the names end of what SQLite and we keep beside a store."""


def make_private(store: Path) -> None:
    """Take all rights on a store and what is kept beside it from others, and on its folder if that is the default one.

    Links and what belongs to another user are left as they are, and nothing is raised.
    """
    if sys.platform == "win32":
        return
    # Any other folder, such as a home or `/dev`, holds more than a store.
    folder = [store.parent] if store.parent.name == FOLDER else []
    for path in (*folder, store, *(store.with_name(f"{store.name}{end}") for end in _BESIDE)):
        with suppress(OSError):
            found = path.lstat()
            is_ours = found.st_uid == os.geteuid() and (S_ISREG(found.st_mode) or S_ISDIR(found.st_mode))
            if is_ours and found.st_mode & OTHERS:
                path.chmod(S_IMODE(found.st_mode) & ~OTHERS)

"""Files that a command writes for its user alone, whole or not at all."""

import os
import tempfile
from pathlib import Path

RIGHTS = 0o600
"""What a report holds may be secret, whatever the umask says."""


def write_private(path: Path, content: bytes, *, overwrite: bool) -> None:
    """Write a file that only its owner can read; it has all its content as soon as it has its name.

    overwrite: replace a file that is there; what is no ordinary file, such as a pipe, is written into.
    Raises OSError with the path, FileExistsError where it is there and `overwrite` is not given.
    """
    try:
        if overwrite and path.exists() and not path.is_file():
            path.write_bytes(content)
            return
        # A link stays, and what it leads to is replaced.
        target = path.resolve() if overwrite else path
        unfinished = _written(target.parent, content)
        try:
            if not overwrite:
                # Takes the name, so that nobody else's file is replaced.
                os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, RIGHTS))
            unfinished.replace(target)
        except BaseException:
            unfinished.unlink()
            raise
    except OSError as error:
        error.filename, error.filename2 = str(path), None
        raise


def _written(folder: Path, content: bytes) -> Path:
    """Return a new file with this content in a folder."""
    descriptor, name = tempfile.mkstemp(prefix=".report-", dir=folder)
    path = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        path.chmod(RIGHTS)
    except BaseException:
        path.unlink()
        raise
    return path

"""Atomic writing of files that only the user can read."""

import os
from pathlib import Path

from run_specialist.cli.temporary_file import temporary_file
from run_specialist.specialist.project import result_path

MODE = 0o600
"""Set regardless of the umask, because a report may contain secrets."""


def write_private(path: Path, content: bytes, *, overwrite: bool) -> None:
    """Write a file atomically, readable by its owner only.

    overwrite: replace an existing file; a special file, such as a pipe, is written to directly.
    Raises OSError with the path; FileExistsError if the file exists and `overwrite` is false.
    """
    try:
        # Replace the target of a symlink, not the symlink.
        target = result_path(path) if overwrite else result_path(path.parent) / path.name
        if overwrite and path.exists() and not path.is_file():
            path.write_bytes(content)
            return
        temporary = temporary_file(target.parent, content, MODE)
        try:
            if not overwrite:
                # Reserve the name, so that a file created in the meantime is not replaced.
                os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, MODE))
            temporary.replace(target)
        except BaseException:
            temporary.unlink()
            raise
    except OSError as error:
        error.filename, error.filename2 = str(path), None
        raise

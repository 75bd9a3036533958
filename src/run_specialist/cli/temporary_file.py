"""Write a temporary file that replaces another one, so that readers see either the old or the new content."""

import os
import tempfile
from pathlib import Path


def temporary_file(folder: Path, content: bytes, mode: int) -> Path:
    """Create a hidden file with this content in a folder, and return its path; raises OSError.

    mode: its permissions, regardless of the umask.
    """
    descriptor, name = tempfile.mkstemp(prefix=".run-specialist-", dir=folder)
    path = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        path.chmod(mode)
    except BaseException:
        path.unlink()
        raise
    return path

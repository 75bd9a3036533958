"""The token of a server over HTTP that nobody chose: made once, and kept in a file that only the user can read.

It stays the same from start to start, as clients have it in their configuration.
"""

import os
import re
import secrets
import stat
import tempfile
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from run_specialist.errors import UsageError

FILE = "mcp-token"
"""In the user's data directory."""
FORM = re.compile("[!-~]+")
"""Printable ASCII without blanks: no header carries anything else safely."""
_LONGEST = 4_096
_BYTES = 32


@dataclass(frozen=True)
class AccessToken:
    """A token, and where it is kept."""

    value: str = field(repr=False)
    kept: str
    """A line about where it is kept, for the user."""


def access_token(folder: Path | None = None) -> AccessToken:
    """Return the user's token; make it at the first call.

    folder: where it is kept; None for the user's data directory.
    Raises UsageError where others could have read or written it.
    """
    if folder is None:
        import platformdirs  # noqa: PLC0415 - 20 ms that only this default costs

        folder = platformdirs.user_data_path("run-specialist", appauthor=False)
    path = folder / FILE
    try:
        return _found(path) or _made(path)
    except OSError as error:
        reason = f"{path}: {error.strerror or error}"
        return AccessToken(
            secrets.token_urlsafe(_BYTES), f"the token cannot be kept, it is new at each start: {reason}"
        )


def _made(path: Path) -> AccessToken:
    """Make a token and keep it, unless another process was faster."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{FILE}-")
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            if os.name == "posix":
                os.fchmod(file.fileno(), stat.S_IRUSR | stat.S_IWUSR)
            file.write(secrets.token_urlsafe(_BYTES) + "\n")
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):
            # Whole or not at all; a rename would replace the token of a server that has just started.
            os.link(name, path)
    finally:
        Path(name).unlink()
    found = _found(path)
    if found is None:
        raise FileNotFoundError(None, "it was deleted at once", str(path))
    return found


def _found(path: Path) -> AccessToken | None:
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except FileNotFoundError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        about = os.fstat(file.fileno())
        if not stat.S_ISREG(about.st_mode):
            raise UsageError(f"{path} is no ordinary file; delete it, and the next start makes a new token")
        if os.name == "posix" and (about.st_uid != os.geteuid() or about.st_mode & (stat.S_IRWXG | stat.S_IRWXO)):
            raise UsageError(
                f"{path} belongs to another user, or others can read or write it; delete it, and the next start makes "
                "a new token"
            )
        value = file.read(_LONGEST).decode("ascii", "replace").strip()
    if not FORM.fullmatch(value):
        raise UsageError(f"{path} holds no token; delete it, and the next start makes a new one")
    return AccessToken(value, f"the token is kept in {path}; delete this file to get a new one")

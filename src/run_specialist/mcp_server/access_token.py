"""The generated access token of the HTTP server, stored in a file that only the user can read.

The token stays the same across restarts, because clients store it in their configuration.
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
"""File name in the user's data directory."""
FORM = re.compile("[!-~]+")
"""Printable ASCII without spaces, because HTTP headers do not carry other characters reliably."""
_LONGEST = 4_096
_BYTES = 32


@dataclass(frozen=True)
class AccessToken:
    """A token and the location of its file."""

    value: str = field(repr=False)
    message: str
    """Message for the user with the location of the token."""


def access_token(folder: Path | None = None) -> AccessToken:
    """Return the user's token; generate it on the first call.

    folder: the folder of the file; None for the user's data directory.
    If the file cannot be written, the token is new at each start.
    Raises UsageError if other users could have read or written the file.
    """
    if folder is None:
        import platformdirs  # noqa: PLC0415 - 20 ms that only this default costs

        folder = platformdirs.user_data_path("run-specialist", appauthor=False)
    path = folder / FILE
    try:
        return _read(path) or _create(path)
    except OSError as error:
        reason = f"{path}: {error.strerror or error}"
        return AccessToken(
            secrets.token_urlsafe(_BYTES), f"the token cannot be stored and changes at each start: {reason}"
        )


def _create(path: Path) -> AccessToken:
    """Generate and store a token; return the stored one if another process was faster."""
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
            # Atomic; a rename would replace the token of a server that has just started.
            os.link(name, path)
    finally:
        Path(name).unlink()
    stored = _read(path)
    if stored is None:
        raise FileNotFoundError(None, "the file was deleted immediately", str(path))
    return stored


def _read(path: Path) -> AccessToken | None:
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except FileNotFoundError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise UsageError(f"{path} is not a regular file; delete it, and the next start generates a new token")
        if os.name == "posix" and (status.st_uid != os.geteuid() or status.st_mode & (stat.S_IRWXG | stat.S_IRWXO)):
            raise UsageError(
                f"{path} belongs to another user, or is accessible to others; delete it, and the next start generates "
                "a new token"
            )
        value = file.read(_LONGEST).decode("ascii", "replace").strip()
    if not FORM.fullmatch(value):
        raise UsageError(f"{path} does not contain a token; delete it, and the next start generates a new one")
    return AccessToken(value, f"the token is stored in {path}; delete this file to generate a new one")

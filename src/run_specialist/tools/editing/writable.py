"""The paths of a specialist's key `writable`: which files its tools may change."""

import os
from collections.abc import Sequence
from pathlib import Path

from run_specialist.errors import ToolError, UsageError
from run_specialist.tools.sandbox.protected_files import is_protected_from_commands, reason_to_protect
from run_specialist.tools.sandbox.sandbox import Sandbox, escape_path, unescape_path
from run_specialist.tools.sandbox.secret_files import is_secret


class Writable:
    """The files below a root that may be changed."""

    def __init__(self, root: Path, writable: Sequence[str], closed: Sequence[Path] = ()) -> None:
        """Select the files.

        writable: folders, files or globs below the root; empty = none.
        closed: real paths of files and folders that may not be changed in any case.
        Raises UsageError for a path outside the root.
        """
        try:
            self._selected = Sandbox(root, writable)
        except UsageError as error:
            raise UsageError(str(error).replace("paths:", "writable:", 1)) from None
        self.root = self._selected.root
        self._names = tuple(writable)
        self._closed = tuple(closed)

    def locate(self, path: str) -> str:
        """Return a path relative to the root, its symlinks resolved; the file need not exist.

        Raises ToolError if it may not be changed.
        """
        self._selected.require_root()
        real = self._real(path)
        if not os.path.lexists(real) and unescape_path(path) != path:
            real = self._real(unescape_path(path))
        relative = self._selected.relative(real)
        if relative is None:
            raise ToolError(f"{escape_path(path)!r} is outside the root; {self._allowed()}")
        self.check(relative)
        return relative

    def check(self, relative: str) -> None:
        """Raise ToolError if a located file may not be changed."""
        shown = escape_path(relative)
        if not relative:
            raise ToolError(f"'.' is a folder; {self._allowed()}")
        if why := reason_to_protect(relative):
            raise ToolError(f"{shown!r} may not be changed: {why}")
        if not relative.isprintable() or not self._selected.is_short_enough(f"{relative}{'x' * 50}"):
            raise ToolError(f"{shown!r} is no usable path: it is too long, or has characters that cannot be printed")
        real = self.root / relative
        if any(real.is_relative_to(one) for one in self._closed):
            raise ToolError(f"{shown!r} may not be changed: it belongs to the specialists and settings of the user")
        if not self._names or not self._selected.is_selected(relative, is_folder=False):
            raise ToolError(f"{shown!r} may not be changed; {self._allowed()}")

    def check_undo(self, relative: str, *, is_created: bool) -> None:
        """Raise ToolError if neither a tool nor a command could have changed a file.

        is_created: whether the run created the file.
        """
        shown, parts = escape_path(relative), relative.split("/")
        if not {"", ".", ".."}.isdisjoint(parts) or "\0" in relative:
            raise ToolError(f"{shown!r} is no usable path")
        if any(is_protected_from_commands("/".join(parts[: at + 1])) for at in range(len(parts))):
            raise ToolError(f"{shown!r} may not be changed: {reason_to_protect(relative)}")
        if is_secret(relative) and not is_created:
            raise ToolError(f"{shown!r} may not be changed: such files hold secrets")
        if any((self.root / relative).is_relative_to(one) for one in self._closed):
            raise ToolError(f"{shown!r} may not be changed: it belongs to the specialists and settings of the user")

    def _allowed(self) -> str:
        return f"you may change {', '.join(self._names) or 'nothing'}"

    def _real(self, path: str) -> Path:
        try:
            return Path(os.path.realpath(self._selected.root / path))
        except (OSError, ValueError) as error:
            raise ToolError(f"{escape_path(path)!r} is no usable path: {error}") from error

"""Paths that stay inside one folder: what the file tools may see, and how a file there is opened."""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import BinaryIO

from run_specialist.errors import ToolError, UsageError
from run_specialist.safe_open import Folder, folder, way
from run_specialist.tools.sandbox.ignore_rules import IgnoreRules
from run_specialist.tools.sandbox.named_paths import NamedPath, NamedPaths
from run_specialist.tools.sandbox.secret_files import is_secret

_LONGEST = 4096
"""Linux takes no longer paths, nor do others [bytes]."""
_GLOB = re.compile(r"[*?\[]")
_PLACE = re.compile(r":(?=\d+: )")
_ESCAPES = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}


def shown(path: str) -> str:
    """Write a path so that it stays on one line and is valid text; `meant` reads it back.

    A name cannot hold what would end it in `path:line: text`, and so speak for another file.
    """
    for character, escape in _ESCAPES.items():
        path = path.replace(character, escape)
    path = _PLACE.sub(r"\\x3a", path)
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def meant(path: str) -> str:
    """Read back a path that `shown` has written."""
    for character, escape in _ESCAPES.items():
        path = path.replace(escape, character)
    path = path.replace(r"\x3a", ":")
    return re.sub(r"\\x([89a-f][0-9a-f])", lambda match: chr(0xDC00 + int(match[1], 16)), path)


class Sandbox:
    """A folder that paths cannot leave, with what is ignored or not asked for left out."""

    def __init__(self, root: Path, paths: Sequence[str] = ()) -> None:
        """Root the sandbox; it need not exist yet.

        paths: folders, files or globs under the root; when given, all else is invisible.
        Raises UsageError for one that leads out of the root.
        """
        self.root = Path(os.path.realpath(root))
        named = [self._anchor(path) for path in paths]
        self._named = NamedPaths(named)
        self._sees_all = not named or any(path.is_root for path in named)
        self._opened = NamedPaths([path for path in named if path.names_secret])

    def _anchor(self, path: str) -> NamedPath:
        parts = Path(path).parts
        plain = next((i for i, part in enumerate(parts) if _GLOB.search(part)), len(parts))
        folder = self.relative(self._resolve(str(Path(*parts[:plain]))))
        if folder is None or ".." in parts[plain:]:
            raise UsageError(f"paths: {path!r} leads out of the root {self.root}; name a folder under it")
        return NamedPath(folder, "/".join(parts[plain:]), parts)

    def _resolve(self, path: str) -> Path:
        try:
            return Path(os.path.realpath(self.root / path))
        except (OSError, ValueError) as error:
            raise ToolError(f"{shown(path)!r} is no usable path: {error}") from error

    def relative(self, real: Path) -> str | None:
        """Return a resolved path as seen from the root; empty for the root, None outside."""
        if not real.is_relative_to(self.root):
            return None
        relative = real.relative_to(self.root).as_posix()
        return "" if relative == "." else relative

    def locate(self, path: str) -> str:
        """Return where a path leads once links are followed, as seen from the root; it need not exist.

        Raises ToolError when that is outside the root, or hidden.
        """
        self.require_root()
        real = self._resolve(path)
        if not os.path.lexists(real) and meant(path) != path:
            real = self._resolve(meant(path))
        relative = self.relative(real)
        if relative is None:
            raise ToolError(f"{shown(path)!r} is outside the root; use ls or glob to see what you may read")
        if os.path.lexists(real) and (reason := self._hidden(relative, is_folder=real.is_dir())):
            raise ToolError(f"{shown(path)!r} {reason}; use ls or glob to see what you may read")
        return relative

    def require_root(self) -> None:
        """Raise ToolError when the root is not, or no longer, a folder."""
        if not self.root.is_dir():
            raise ToolError(f"the root folder {self.root} does not exist (any more); no file can be read")

    def _hidden(self, relative: str, *, is_folder: bool) -> str | None:
        if not self.asked(relative, is_folder=is_folder):
            return "is not among the paths that you may read"
        parts = relative.split("/") if relative else []
        try:
            for depth, rules in enumerate(self.rules_above(relative)):
                if parts[depth].casefold() == ".git":
                    return "belongs to git"
                if rules.hide("/".join(parts[: depth + 1]), is_folder=is_folder or depth < len(parts) - 1):
                    return "is hidden by .gitignore"
        except OSError as error:
            # Whether it may be seen cannot be told.
            return f"cannot be reached: {error.strerror}"
        if self.is_closed(relative, is_folder=is_folder):
            return "is closed: such files hold secrets, and only `paths` in the specialist's file opens them, by name"
        return None

    def rules_above(self, relative: str) -> Iterator[IgnoreRules]:
        """Yield what is ignored in the root, and so on down to the folder that a path lies in; nothing for the root.

        Raises OSError.
        """
        if not relative:
            return
        rules, above = IgnoreRules(), ""
        with closing(way(self.root, relative.rpartition("/")[0])) as steps:
            for here, name in zip(steps, relative.split("/"), strict=True):
                rules = rules.within(here, above)
                yield rules
                above = f"{above}/{name}" if above else name

    def reaches(self, relative: str) -> bool:
        """Tell whether a path is short enough for the system to be asked about it as a whole."""
        return len(os.fsencode(f"{self.root}/{relative}")) < _LONGEST

    def asked(self, relative: str, *, is_folder: bool) -> bool:
        """Tell whether `paths` lets this entry be seen; a folder also when it may hold such an entry."""
        return self._sees_all or self._named.hold(relative, is_folder=is_folder)

    def is_closed(self, relative: str, *, is_folder: bool) -> bool:
        """Tell whether an entry usually holds secrets, and `paths` does not open it by its name."""
        return is_secret(relative) and not self._opened.hold(relative, is_folder=is_folder)

    def starts(self) -> Iterator[str]:
        """Yield the folders and files that `paths` begins with, as far as they are there and may be seen."""
        for start in [""] if self._sees_all else dict.fromkeys(path.folder for path in self._named.paths):
            path = self.root / start
            is_folder = os.path.isdir(path)  # noqa: PTH112 - pathlib raises where nothing may be asked
            if (is_folder or os.path.isfile(path)) and not self._hidden(start, is_folder=is_folder):  # noqa: PTH113 - as above
                yield start

    def open(self, relative: str) -> BinaryIO:
        """Open a located file for reading, following no link; what is no regular file is never opened.

        Raises OSError.
        """
        above, _, name = relative.rpartition("/")
        with folder(self.root, above) as here:
            return here.file(name or ".")

    def size(self, relative: str) -> int:
        """Return the size of a located file [bytes]; raises OSError."""
        above, _, name = relative.rpartition("/")
        with folder(self.root, above) as here:
            return here.info(name or ".").st_size

    def folder(self, relative: str) -> AbstractContextManager[Folder]:
        """Hold a located folder open, following no link; raises OSError."""
        return folder(self.root, relative)

"""Sandbox that confines file access to one root folder and its visible entries."""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import BinaryIO

from run_specialist.errors import ToolError, UsageError
from run_specialist.safe_files.safe_open import Folder, folder, way
from run_specialist.tools.sandbox.ignore_rules import IgnoreRules
from run_specialist.tools.sandbox.named_paths import NamedPath, NamedPaths
from run_specialist.tools.sandbox.secret_files import holds_cases, holds_notes, is_secret

_LONGEST = 4096
"""Maximum length of a path on Linux, and at most that elsewhere [bytes]."""
_GLOB = re.compile(r"[*?\[]")
_SEPARATOR = re.compile(r":(?=\d+: )")
_ESCAPES = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}

_CLOSED = "is closed: such files hold secrets, and only `paths` in the specialist's file opens them, by name"
_CLOSED_CASES = "is closed: it holds the expected answers of an eval; `paths` in the specialist's file can name it"
_CLOSED_NOTES = "is closed: it holds notes of specialists; `paths` in the specialist's file can name it"


def escape_path(path: str) -> str:
    """Escape a path so that it is valid text on one line; `unescape_path` reverses this.

    It also escapes the separator of `path:line: text`, so that a file name cannot fake a hit in another file.
    """
    for character, escape in _ESCAPES.items():
        path = path.replace(character, escape)
    path = _SEPARATOR.sub(r"\\x3a", path)
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def unescape_path(path: str) -> str:
    """Unescape a path that `escape_path` has escaped."""
    for character, escape in _ESCAPES.items():
        path = path.replace(escape, character)
    path = path.replace(r"\x3a", ":")
    return re.sub(r"\\x([89a-f][0-9a-f])", lambda match: chr(0xDC00 + int(match[1], 16)), path)


class Sandbox:
    """Root folder that paths cannot leave; ignored, unselected and secret entries are hidden."""

    def __init__(self, root: Path, paths: Sequence[str] = ()) -> None:
        """Create a sandbox for a root folder, which need not exist yet.

        paths: folders, files or globs under the root; if given, all other entries are hidden.
        Raises UsageError for a path outside the root.
        """
        self.root = Path(os.path.realpath(root))
        named = [self._parse(path) for path in paths]
        self._named = NamedPaths(named)
        self._sees_all = not named or any(path.is_root for path in named)
        self._named_secrets = NamedPaths([path for path in named if path.names_secret])

    @property
    def names_secrets(self) -> bool:
        """Whether its paths open files that usually hold secrets."""
        return bool(self._named_secrets.paths)

    def _parse(self, path: str) -> NamedPath:
        parts = Path(path).parts
        plain = next((i for i, part in enumerate(parts) if _GLOB.search(part)), len(parts))
        folder = self.relative(self._resolve(str(Path(*parts[:plain]))))
        if folder is None or ".." in parts[plain:]:
            raise UsageError(f"paths: {path!r} is outside the root {self.root}; use a path under it")
        return NamedPath(folder, "/".join(parts[plain:]), parts)

    def _resolve(self, path: str) -> Path:
        try:
            return Path(os.path.realpath(self.root / path))
        except (OSError, ValueError) as error:
            raise ToolError(f"{escape_path(path)!r} is no usable path: {error}") from error

    def relative(self, real: Path) -> str | None:
        """Return a resolved path relative to the root; empty for the root itself, None outside it."""
        if not real.is_relative_to(self.root):
            return None
        relative = real.relative_to(self.root).as_posix()
        return "" if relative == "." else relative

    def locate(self, path: str) -> str:
        """Resolve the symlinks of a path and return it relative to the root; it need not exist.

        Raises ToolError if the result is outside the root or hidden.
        """
        self.require_root()
        real = self._resolve(path)
        if not os.path.lexists(real) and unescape_path(path) != path:
            real = self._resolve(unescape_path(path))
        relative = self.relative(real)
        if relative is None:
            raise ToolError(f"{escape_path(path)!r} is outside the root; use ls or glob to see what you may read")
        if os.path.lexists(real) and (reason := self._hidden(relative, is_folder=real.is_dir())):
            raise ToolError(f"{escape_path(path)!r} {reason}; use ls or glob to see what you may read")
        return relative

    def require_root(self) -> None:
        """Raise ToolError if the root is not, or no longer, a folder."""
        if not self.root.is_dir():
            raise ToolError(f"the root folder {self.root} does not exist (any more); no file can be read")

    def _hidden(self, relative: str, *, is_folder: bool) -> str | None:
        if not self.is_selected(relative, is_folder=is_folder):
            return "is not among the paths that you may read"
        parts = relative.split("/") if relative else []
        try:
            for depth, rules in enumerate(self.rules_above(relative)):
                if parts[depth].casefold() == ".git":
                    return "belongs to git"
                if rules.hide("/".join(parts[: depth + 1]), is_folder=is_folder or depth < len(parts) - 1):
                    return "is hidden by .gitignore"
        except OSError as error:
            # It is unknown whether it is ignored.
            return f"cannot be reached: {error.strerror}"
        if self.is_closed(relative, is_folder=is_folder):
            return _CLOSED_NOTES if holds_notes(relative) else _CLOSED_CASES if holds_cases(relative) else _CLOSED
        return None

    def rules_above(self, relative: str) -> Iterator[IgnoreRules]:
        """Yield the ignore rules of each folder from the root down to a path's parent; nothing for the root itself.

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

    def is_short_enough(self, relative: str) -> bool:
        """Return whether a path is short enough for system calls."""
        return len(os.fsencode(f"{self.root}/{relative}")) < _LONGEST

    def is_selected(self, relative: str, *, is_folder: bool) -> bool:
        """Return whether `paths` selects this entry or, for a folder, may select its entries."""
        return self._sees_all or self._named.select(relative, is_folder=is_folder)

    def is_closed(self, relative: str, *, is_folder: bool) -> bool:
        """Return whether an entry usually holds secrets and is not named explicitly in `paths`."""
        return is_secret(relative) and not self._named_secrets.select(relative, is_folder=is_folder)

    def starts(self) -> Iterator[str]:
        """Yield the existing, visible folders and files with which `paths` begin."""
        for start in [""] if self._sees_all else dict.fromkeys(path.folder for path in self._named.paths):
            path = self.root / start
            is_folder = os.path.isdir(path)  # noqa: PTH112 - pathlib raises for inaccessible paths
            if (is_folder or os.path.isfile(path)) and not self._hidden(start, is_folder=is_folder):  # noqa: PTH113 - as above
                yield start

    def open(self, relative: str) -> BinaryIO:
        """Open a located regular file for reading, without following symlinks; other files are never opened.

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
        """Open a located folder without following symlinks; raises OSError."""
        return folder(self.root, relative)

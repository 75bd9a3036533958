"""Open files below a folder without following symlinks, one path component at a time.

This prevents symlink races: between the check of a path and its opening, any folder in the path can be replaced by a
symlink. A folder that is held open by a descriptor cannot.

`locate` first resolves the symlinks of a path and rejects a path outside its root; `open_file` then opens the result
without following symlinks.
"""

import errno
import os
import stat
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from typing import BinaryIO

_HELD = {os.open, os.stat} <= os.supports_dir_fd and os.scandir in os.supports_fd
"""False on Windows, where full paths are opened and only the last component is checked for a symlink."""
_NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_FOLDER = _NO_LINK | getattr(os, "O_DIRECTORY", 0)
# Traversing a folder needs fewer permissions than listing it.
_THROUGH = _FOLDER | getattr(os, "O_PATH", os.O_RDONLY)
_NO_WAIT = _NO_LINK | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_BINARY", 0)
_FILE = _NO_WAIT | os.O_RDONLY
_NEW = _NO_WAIT | os.O_WRONLY | os.O_CREAT
_PROC = "/proc/self"
"""Exists if the kernel exposes processes as files, including their environment and memory."""


class NotRegular(OSError):
    """Raised for a folder, device, FIFO, socket or kernel file instead of a regular file."""

    def __init__(self) -> None:
        super().__init__(errno.EINVAL, "no regular file")


class OutsideRoot(OSError):
    """Raised for a path outside its root folder."""

    def __init__(self, text: str) -> None:
        super().__init__(errno.EXDEV, text)


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder held open by a descriptor, so that changes of its path have no effect."""

    path: str
    """Path of the folder; used only if there is no descriptor."""
    descriptor: int | None
    """File descriptor; None if the platform cannot hold folders open."""

    @classmethod
    def at(cls, root: Path) -> "Folder":
        """Open a root folder; raises OSError."""
        return cls(str(root), os.open(root, _THROUGH) if _HELD else None)

    def folder(self, name: str) -> "Folder":
        """Open a subfolder; raises OSError, also for a symlink."""
        path = os.path.join(self.path, name)  # noqa: PTH118 - pathlib would take longer than opening the folder
        if self.descriptor is None and os.path.islink(path):  # noqa: PTH114 - as above
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        return Folder(path, None if self.descriptor is None else os.open(name, _THROUGH, dir_fd=self.descriptor))

    def info(self, name: str) -> os.stat_result:
        """Return the status of an entry, of a symlink itself; raises OSError."""
        return os.stat(self._named(name), dir_fd=self.descriptor, follow_symlinks=False)

    def file(self, name: str) -> BinaryIO:
        """Open a regular file; raises OSError, also for a FIFO or device, which could block."""
        if not _is_stored(self.info(name)):
            raise NotRegular
        return _checked(os.open(self._named(name), _FILE, dir_fd=self.descriptor), "rb")

    def create(self, name: str, *, overwrite: bool) -> BinaryIO:
        """Create or truncate a regular file for writing; raises OSError, FileExistsError unless `overwrite`."""
        flags = _NEW if overwrite else _NEW | os.O_EXCL
        # Truncate only after the check that it is a regular file.
        file = _checked(os.open(self._named(name), flags, 0o666, dir_fd=self.descriptor), "wb")
        file.truncate()
        return file

    @contextmanager
    def listing(self) -> "Iterator[Iterator[os.DirEntry[str]]]":
        """Return a context with an iterator over the entries, in no particular order; raises OSError."""
        if self.descriptor is None:
            with os.scandir(self.path) as found:
                yield found
            return
        readable = os.open(".", _FOLDER | os.O_RDONLY, dir_fd=self.descriptor)
        try:
            with os.scandir(readable) as found:
                yield found
        finally:
            os.close(readable)

    def close(self) -> None:
        """Close the descriptor."""
        if self.descriptor is not None:
            os.close(self.descriptor)

    def _named(self, name: str) -> str:
        return name if self.descriptor is not None else os.path.join(self.path, name)  # noqa: PTH118 - as above


def way(root: Path, relative: str) -> Generator[Folder]:
    """Yield the root and each folder down to a path; each stays open until the next iteration.

    relative: path with `/`, without `..`; empty = only the root.
    Raises OSError if a component cannot be opened, e.g. a symlink.
    """
    here = Folder.at(root)
    try:
        yield here
        for name in names(relative):
            inner = here.folder(name)
            here.close()
            here = inner
            yield here
    finally:
        here.close()


@contextmanager
def folder(root: Path, relative: str) -> Iterator[Folder]:
    """Return a context that holds a folder below the root open; raises OSError."""
    with closing(way(root, relative)) as steps:
        yield next(islice(steps, len(names(relative)), None))


def names(relative: str) -> list[str]:
    """Return the components of a path; raises OSError for `..` and empty components."""
    parts = relative.split("/") if relative else []
    if not {"", ".", ".."}.isdisjoint(parts):
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
    return parts


def locate(path: Path, root: Path | None) -> tuple[Path, str]:
    """Resolve the symlinks of a path; return a folder and the relative path from there. The target need not exist.

    root: folder that must contain the target, outside of `.git` folders; None = no restriction.
    Raises OutsideRoot, and ValueError for a path that contains a NUL.
    """
    real = Path(os.path.realpath(path))
    if root is None:
        return real.parent, real.name
    top = Path(os.path.realpath(root))
    if not real.is_relative_to(top):
        raise OutsideRoot(f"it leads outside the project {root}; copy the target into the project")
    parts = real.relative_to(top).parts
    if any(part.casefold() == ".git" for part in parts):
        raise OutsideRoot("it leads into .git, which only git reads")
    return top, "/".join(parts)


def open_file(path: Path, root: Path | None) -> BinaryIO:
    """Open a regular file for reading; symlinks are followed only within the root.

    root: as for `locate`.
    Raises OSError, and ValueError for a path that contains a NUL.
    """
    with _parent(path, root) as (here, name):
        return here.file(name)


def create_file(path: Path, root: Path | None, *, overwrite: bool) -> BinaryIO:
    """Create or truncate a regular file for writing in an existing folder; raises the same errors as `open_file`.

    overwrite: if False, an existing file or symlink raises FileExistsError.
    """
    if not overwrite and os.path.lexists(path):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
    with _parent(path, root) as (here, name):
        return here.create(name, overwrite=overwrite)


@contextmanager
def _parent(path: Path, root: Path | None) -> Iterator[tuple[Folder, str]]:
    """Return a context that holds the parent folder of a path's target open, with the file name."""
    top, relative = locate(path, root)
    above, _, name = relative.rpartition("/")
    if root is None:
        # A path that the user chose: its folders need not be held open, or be readable.
        yield Folder(str(top), None), name or "."
        return
    with folder(top, above) as here:
        yield here, name or "."


def _checked(descriptor: int, mode: str) -> BinaryIO:
    """Return a file object for a descriptor; unless it is a regular file on a disk, close it and raise NotRegular."""
    if _is_stored(os.fstat(descriptor)):
        return os.fdopen(descriptor, mode)  # type: ignore[return-value] # binary by its mode
    os.close(descriptor)
    raise NotRegular


def _is_stored(info: os.stat_result) -> bool:
    """Return whether this is a regular file that the kernel does not generate."""
    return stat.S_ISREG(info.st_mode) and info.st_dev != _proc_device()


@cache
def _proc_device() -> int | None:
    """Return the device number of the kernel's process files; None if the system has none."""
    with suppress(OSError):
        return os.stat(_PROC).st_dev  # noqa: PTH116 - as above
    return None

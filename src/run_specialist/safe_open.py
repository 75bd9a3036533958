"""Open what lies below a folder, one name after the other, so that no link is ever followed on the way.

A path that was checked and is then opened as a whole may lead elsewhere by then: any folder on the way can be swapped
for a link in between. A folder that is held open cannot.

`locate` resolves the links of a path first, and refuses a path that leaves its root; `open_file` then opens the result
without following any link.
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
"""False on Windows: there paths are opened as a whole, and only their last name is known to be no link."""
_NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_FOLDER = _NO_LINK | getattr(os, "O_DIRECTORY", 0)
# Going through a folder needs less leave than listing it.
_THROUGH = _FOLDER | getattr(os, "O_PATH", os.O_RDONLY)
_NO_WAIT = _NO_LINK | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_BINARY", 0)
_FILE = _NO_WAIT | os.O_RDONLY
_NEW = _NO_WAIT | os.O_WRONLY | os.O_CREAT
_PROC = "/proc/self"
"""Exists where the kernel shows processes as files: their environment, memory and secrets."""


class NotRegular(OSError):
    """A folder, device, FIFO, socket or file of the kernel stands where a regular file is wanted."""

    def __init__(self) -> None:
        super().__init__(errno.EINVAL, "no regular file")


class OutsideRoot(OSError):
    """A path leaves the folder that it has to stay in."""

    def __init__(self, text: str) -> None:
        super().__init__(errno.EXDEV, text)


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder that is held open; what happens to its path meanwhile does not matter."""

    path: str
    """As it was reached; used where folders cannot be held."""
    descriptor: int | None

    @classmethod
    def at(cls, root: Path) -> "Folder":
        """Open the uppermost one; raises OSError."""
        return cls(str(root), os.open(root, _THROUGH) if _HELD else None)

    def folder(self, name: str) -> "Folder":
        """Open a folder in it; raises OSError, also for a link to one."""
        path = os.path.join(self.path, name)  # noqa: PTH118 - pathlib would cost more than the opening
        if self.descriptor is None and os.path.islink(path):  # noqa: PTH114 - likewise
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        return Folder(path, None if self.descriptor is None else os.open(name, _THROUGH, dir_fd=self.descriptor))

    def info(self, name: str) -> os.stat_result:
        """Look at an entry, at a link itself; raises OSError."""
        return os.stat(self._named(name), dir_fd=self.descriptor, follow_symlinks=False)

    def file(self, name: str) -> BinaryIO:
        """Open a regular file in it, and nothing else, so that nothing can hang; raises OSError."""
        if not _is_stored(self.info(name)):
            raise NotRegular
        return _checked(os.open(self._named(name), _FILE, dir_fd=self.descriptor), "rb")

    def create(self, name: str, *, overwrite: bool) -> BinaryIO:
        """Open a regular file in it for writing, empty; raises OSError, FileExistsError unless `overwrite`."""
        flags = _NEW if overwrite else _NEW | os.O_EXCL
        # Emptied only once it is known to be a regular file.
        file = _checked(os.open(self._named(name), flags, 0o666, dir_fd=self.descriptor), "wb")
        file.truncate()
        return file

    @contextmanager
    def listing(self) -> "Iterator[Iterator[os.DirEntry[str]]]":
        """Give its entries, in no order; raises OSError."""
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
        """Let go of it."""
        if self.descriptor is not None:
            os.close(self.descriptor)

    def _named(self, name: str) -> str:
        return name if self.descriptor is not None else os.path.join(self.path, name)  # noqa: PTH118 - as above


def way(root: Path, relative: str) -> Generator[Folder]:
    """Yield the root and each folder down to a path, each only open until the next is asked for.

    relative: in `/`, without `..`; empty for the root alone.
    Raises OSError where the way is barred, e.g. by a link.
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
    """Hold a folder open that lies below the root; raises OSError."""
    with closing(way(root, relative)) as steps:
        yield next(islice(steps, len(names(relative)), None))


def names(relative: str) -> list[str]:
    """Return the names that a path is made of; raises OSError for one that leads upwards."""
    parts = relative.split("/") if relative else []
    if not {"", ".", ".."}.isdisjoint(parts):
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
    return parts


def locate(path: Path, root: Path | None) -> tuple[Path, str]:
    """Return a folder without links in its path, and the way from there to where a path leads; it need not exist.

    root: the folder that the path must not leave, its `.git` folders left out too; None to allow any place.
    Raises OutsideRoot, and ValueError for a path that holds a NUL.
    """
    real = Path(os.path.realpath(path))
    if root is None:
        return real.parent, real.name
    top = Path(os.path.realpath(root))
    if not real.is_relative_to(top):
        raise OutsideRoot(f"it leads out of the project {root}; copy what it leads to into the project")
    parts = real.relative_to(top).parts
    if any(part.casefold() == ".git" for part in parts):
        raise OutsideRoot("it leads into .git, which only git reads")
    return top, "/".join(parts)


def open_file(path: Path, root: Path | None) -> BinaryIO:
    """Open a regular file for reading; links are followed only as far as they stay in the root.

    root: as for `locate`.
    Raises OSError, and ValueError for a path that holds a NUL.
    """
    with _parent(path, root) as (here, name):
        return here.file(name)


def create_file(path: Path, root: Path | None, *, overwrite: bool) -> BinaryIO:
    """Open a regular file for writing, empty, in a folder that exists; raises what `open_file` raises.

    overwrite: without it a file or link that is there already raises FileExistsError.
    """
    if not overwrite and os.path.lexists(path):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
    with _parent(path, root) as (here, name):
        return here.create(name, overwrite=overwrite)


@contextmanager
def _parent(path: Path, root: Path | None) -> Iterator[tuple[Folder, str]]:
    """Hold the folder open that a path leads into, and give the name in it."""
    top, relative = locate(path, root)
    above, _, name = relative.rpartition("/")
    if root is None:
        # The user's own path: nothing on the way has to be held, or readable.
        yield Folder(str(top), None), name or "."
        return
    with folder(top, above) as here:
        yield here, name or "."


def _checked(descriptor: int, mode: str) -> BinaryIO:
    """Return a file object for a descriptor; raises NotRegular and closes it where it is no stored file."""
    if _is_stored(os.fstat(descriptor)):
        return os.fdopen(descriptor, mode)  # type: ignore[return-value] # binary by its mode
    os.close(descriptor)
    raise NotRegular


def _is_stored(info: os.stat_result) -> bool:
    """Tell whether this is a regular file, and not one that the kernel makes up."""
    return stat.S_ISREG(info.st_mode) and info.st_dev != _proc_device()


@cache
def _proc_device() -> int | None:
    """Return the device number of the kernel's process files; None where the system has none."""
    with suppress(OSError):
        return os.stat(_PROC).st_dev  # noqa: PTH116 - as above
    return None

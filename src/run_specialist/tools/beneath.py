"""Open what lies below a folder, one name after the other, so that no link is ever followed on the way.

A path that was checked and is then opened as a whole may lead elsewhere by then: any folder on the way can be swapped
for a link in between. A folder that is held open cannot.
"""

import errno
import os
import stat
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import BinaryIO

_HELD = {os.open, os.stat} <= os.supports_dir_fd and os.scandir in os.supports_fd
"""False on Windows: there paths are opened as a whole, and only their last name is known to be no link."""
_NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_FOLDER = _NO_LINK | getattr(os, "O_DIRECTORY", 0)
# Going through a folder needs less leave than listing it.
_THROUGH = _FOLDER | getattr(os, "O_PATH", os.O_RDONLY)
_FILE = _NO_LINK | os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_BINARY", 0)


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
        if not stat.S_ISREG(self.info(name).st_mode):
            raise OSError(errno.EINVAL, "no regular file")
        file = os.fdopen(os.open(self._named(name), _FILE, dir_fd=self.descriptor), "rb")
        if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            return file
        file.close()
        raise OSError(errno.EINVAL, "no regular file any more")

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

"""Open, replace, create and delete files below a folder without following symlinks.

The folder of the file is held open from the check of its content to the replacement, so that a folder that is swapped
for a symlink in between has no effect.
"""

import errno
import hashlib
import os
import secrets
import stat
import threading
from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from typing import BinaryIO

# Open files below a folder without following symlinks, one path component at a time.
#
# This prevents symlink races: between the check of a path and its opening, any folder in the path can be replaced by a
# symlink. A folder that is held open by a descriptor cannot.
#
# `locate` first resolves the symlinks of a path and rejects a path outside its root; `open_file` then opens the result
# without following symlinks.

_NO_LINK = os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER = _NO_LINK | os.O_DIRECTORY
# Traversing a folder needs fewer permissions than listing it.
_THROUGH = _FOLDER | getattr(os, "O_PATH", os.O_RDONLY)
_NO_WAIT = _NO_LINK | os.O_NONBLOCK | os.O_NOCTTY
_FILE = _NO_WAIT | os.O_RDONLY
_NEW = _NO_WAIT | os.O_WRONLY | os.O_CREAT


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

    descriptor: int | None
    """File descriptor; None for the folder of a path that the user chose, whose names are whole paths."""

    def folder(self, name: str) -> "Folder":
        """Open a subfolder; raises OSError, also for a symlink."""
        return Folder(os.open(name, _THROUGH, dir_fd=self.descriptor))

    def info(self, name: str) -> os.stat_result:
        """Return the status of an entry, of a symlink itself; raises OSError."""
        return os.stat(name, dir_fd=self.descriptor, follow_symlinks=False)

    def file(self, name: str) -> BinaryIO:
        """Open a regular file; raises OSError, also for a FIFO or device, which could block."""
        if not _is_stored(self.info(name)):
            raise NotRegular
        return _checked(os.open(name, _FILE, dir_fd=self.descriptor), "rb")

    def create(self, name: str, *, overwrite: bool, mode: int = 0o666) -> BinaryIO:
        """Create or truncate a regular file for writing; raises OSError, FileExistsError unless `overwrite`."""
        flags = _NEW if overwrite else _NEW | os.O_EXCL
        # Truncate only after the check that it is a regular file.
        file = _checked(os.open(name, flags, mode, dir_fd=self.descriptor), "wb")
        file.truncate()
        return file

    @contextmanager
    def listing(self) -> "Iterator[Iterator[os.DirEntry[str]]]":
        """Return a context with an iterator over the entries, in no particular order; raises OSError."""
        # A folder that can be traversed need not be open for reading.
        readable = os.open(".", _FOLDER | os.O_RDONLY, dir_fd=self.descriptor)
        try:
            with os.scandir(readable) as found:
                yield found
        finally:
            os.close(readable)

    def unlink(self, name: str) -> None:
        """Delete a file, or a symlink itself; raises OSError."""
        os.unlink(name, dir_fd=self.descriptor)

    def close(self) -> None:
        """Close the descriptor."""
        if self.descriptor is not None:
            os.close(self.descriptor)


def way(root: Path, relative: str) -> Generator[Folder]:
    """Yield the root and each folder down to a path; each stays open until the next iteration.

    relative: path with `/`, without `..`; empty = only the root.
    Raises OSError if a component cannot be opened, e.g. a symlink.
    """
    here = Folder(os.open(root, _THROUGH))
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


def _parent(path: Path, root: Path | None) -> AbstractContextManager[tuple[Folder, str]]:
    """Return a context that holds the parent folder of a path's target open, with the file name."""
    # The folders of a path that the user chose need not be held open, or be readable.
    return nullcontext((Folder(None), os.path.realpath(path))) if root is None else place(*locate(path, root))


@contextmanager
def place(root: Path, relative: str) -> Iterator[tuple[Folder, str]]:
    """Return a context that holds the folder of a path open, with the name in it, `.` for the root; raises OSError."""
    above, _, name = relative.rpartition("/")
    with folder(root, above) as here:
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
    """Return the device number of the kernel's process files, with their environment; None if the system has none."""
    with suppress(OSError):
        return os.stat("/proc/self").st_dev  # noqa: PTH116 - pathlib would take longer
    return None


_PERMISSIONS, _WRITABLE = 0o777, 0o222
_PREFIX, _ENDING = ".run-specialist-", ".tmp"
LARGEST = 10_000_000
"""Maximum size of a file whose content is part of its state [bytes]."""
# Held from the last check of a file until its replacement, so that runs of this process do not interfere.
_REPLACING = threading.Lock()


class Changed(OSError):
    """Raised if a file, or a folder above it, is not as expected."""

    def __init__(self, why: str = "it was changed in the meantime") -> None:
        super().__init__(errno.ESTALE, why)


def digest_of(data: bytes) -> str:
    """Return the SHA-256 of a content, in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def state_of(mode: int, data: bytes | None, size: int, changed_at: int) -> str:
    """Return the state of a file or symlink as text: the mode in octal, and the SHA-256 of its content.

    data: the content, of a symlink its target; None if it was not read: then size and time stand for it.
    changed_at: time of the last change [ns].
    """
    kind = f"{mode:06o}"
    if data is not None:
        return f"{kind} {digest_of(data)}"
    return f"{kind} {size}:{changed_at}" if stat.S_ISREG(mode) else f"{kind} -"


def is_same_state(one: str | None, other: str | None) -> bool:
    """Return whether two states are the same; a digest without a mode is that of a file with any mode."""
    if one is None or other is None:
        return one is other
    if " " in one and " " in other:
        return one == other
    return one.rpartition(" ")[2] == other.rpartition(" ")[2]


def state_at(root: Path, relative: str) -> tuple[str | None, bytes | None]:
    """Return the state of what is at a path, and its content, of a symlink its target; None if there is nothing.

    Raises OSError.
    """
    with suppress(FileNotFoundError, NotADirectoryError), place(root, relative) as (here, name):
        info, data = here.info(name), None
        if stat.S_ISLNK(info.st_mode):
            data = os.fsencode(os.readlink(name, dir_fd=here.descriptor))
        elif stat.S_ISREG(info.st_mode) and info.st_size <= LARGEST:
            # A command may have made its own file unreadable.
            is_closed = not info.st_mode & stat.S_IRUSR
            if is_closed:
                set_mode(root, relative, info.st_mode | stat.S_IRUSR)
            try:
                data = _read(here, name, LARGEST)
            finally:
                if is_closed:
                    set_mode(root, relative, info.st_mode)
        return state_of(info.st_mode, data, info.st_size, info.st_mtime_ns), data
    return None, None


def make_link(root: Path, relative: str, target: str) -> None:
    """Create a symlink, and the missing folders above it; raises OSError, FileExistsError if there is something."""
    make_folders(root, relative.rpartition("/")[0])
    with place(root, relative) as (here, name):
        os.symlink(target, name, dir_fd=here.descriptor)


def set_mode(root: Path, relative: str, mode: int) -> None:
    """Set the permissions of a regular file; raises OSError."""
    with place(root, relative) as (here, name):
        if not hasattr(os, "O_PATH"):
            with here.file(name):
                os.chmod(name, mode & _PERMISSIONS, dir_fd=here.descriptor)
            return
        descriptor = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=here.descriptor)
        try:
            if stat.S_ISREG(os.fstat(descriptor).st_mode):
                os.chmod(f"/proc/self/fd/{descriptor}", mode & _PERMISSIONS)  # noqa: PTH101 - a descriptor
        finally:
            os.close(descriptor)


def unlink_file(root: Path, relative: str, expected: str, *, folders: int) -> None:
    """Unlink a file, symlink or FIFO, and up to a number of folders above it that are then empty.

    expected: the state that it must have, or the digest of its content.
    Raises OSError, Changed for another state.
    """
    if not is_same_state(state_at(root, relative)[0], expected):
        raise Changed
    above = relative.rpartition("/")[0]
    with place(root, relative) as (here, name):
        _require_same_place(root, above, here)
        here.unlink(name)
    for _ in range(folders):
        with suppress(OSError), place(root, above) as (here, name):
            os.rmdir(name, dir_fd=here.descriptor)
        above = above.rpartition("/")[0]


def read_content(root: Path, relative: str, most: int) -> bytes | None:
    """Return the content of a file; None if it does not exist.

    most: maximum size [bytes].
    Raises OSError: NotRegular for a folder, device or FIFO, also for a larger file.
    """
    with suppress(FileNotFoundError), place(root, relative) as (here, name):
        return _read(here, name, most)
    return None


def replace_file(root: Path, relative: str, data: bytes, *, expected: str | None, temporary: str = "") -> None:
    """Write a file atomically: other programs see the content before, or the whole new one.

    expected: digest that the file must have; None = it must not exist, and missing folders above it are created.
    temporary: name of the temporary file beside it, as `temporary_name` returns it.
    Raises OSError: Changed for other content.
    """
    above, temporary = relative.rpartition("/")[0], temporary or temporary_name()
    if expected is None:
        make_folders(root, above)
    with place(root, relative) as (here, name):
        mode, owner = (None, None) if expected is None else _unchanged(here, name, expected)
        try:
            _write_new(here, temporary, data, mode, owner)
            with _REPLACING:
                _require_same_place(root, above, here)
                if expected is not None:
                    _unchanged(here, name, expected)
                elif _link(here, temporary, name):
                    return
                os.replace(temporary, name, src_dir_fd=here.descriptor, dst_dir_fd=here.descriptor)
        finally:
            # It is still there if anything failed.
            with suppress(OSError):
                here.unlink(temporary)


def delete_temporary(root: Path, relative: str, temporary: str) -> None:
    """Delete the temporary file of a replacement whose process was killed."""
    if temporary.startswith(_PREFIX) and temporary.endswith(_ENDING) and "/" not in temporary:
        with suppress(OSError), place(root, relative) as (here, _):
            here.unlink(temporary)


def temporary_name() -> str:
    """Return a unique name for a temporary file."""
    return f"{_PREFIX}{secrets.token_hex(8)}{_ENDING}"


def _read(here: Folder, name: str, most: int) -> bytes:
    """Return the content of a file; raises OSError."""
    with here.file(name) as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise OSError(errno.EPERM, f"it is larger than {most:,} bytes")
    return data


def _unchanged(here: Folder, name: str, expected: str) -> tuple[int, tuple[int, int]]:
    """Return mode and owner of a file that may be replaced; raises OSError."""
    try:
        info = here.info(name)
    except FileNotFoundError:
        raise Changed("it was deleted in the meantime") from None
    if digest_of(_read(here, name, LARGEST)) != expected:
        raise Changed
    mode = info.st_mode & _PERMISSIONS
    if info.st_nlink > 1:
        raise OSError(errno.EPERM, "it has a second name, a hard link, which would keep the old content")
    if not mode & _WRITABLE:
        raise OSError(errno.EPERM, "it is read-only")
    return mode, (info.st_uid, info.st_gid)


def _write_new(here: Folder, name: str, data: bytes, mode: int | None, owner: tuple[int, int] | None) -> None:
    """Write a new file to the disk.

    mode: its permissions; None = those of a new file.
    owner: user and group; None = those of this process.
    """
    with here.create(name, overwrite=False, mode=0o666 if mode is None else 0o600) as file:
        file.write(data)
        file.flush()
        info = os.fstat(file.fileno())
        if owner is not None and (info.st_uid, info.st_gid) != owner:
            try:
                os.fchown(file.fileno(), *owner)
            except OSError:
                raise OSError(errno.EPERM, "it belongs to another user or group") from None
        if mode is not None:
            os.fchmod(file.fileno(), mode)
        os.fsync(file.fileno())


def _link(here: Folder, temporary: str, name: str) -> bool:
    """Give a new file its name; return False on a file system without hard links. Raises Changed if it is taken."""
    try:
        os.link(temporary, name, src_dir_fd=here.descriptor, dst_dir_fd=here.descriptor, follow_symlinks=False)
    except (OSError, NotImplementedError):
        with suppress(FileNotFoundError):
            here.info(name)
            raise Changed("it was created in the meantime") from None
        return False
    return True


def make_folders(root: Path, above: str) -> None:
    """Create the missing folders down to a path; raises OSError."""
    done = ""
    for name in names(above):
        with folder(root, done) as here, suppress(FileExistsError):
            os.mkdir(name, dir_fd=here.descriptor)
        done = f"{done}/{name}" if done else name


def _require_same_place(root: Path, above: str, here: Folder) -> None:
    """Raise Changed if the path no longer leads to the folder that is held open."""
    with suppress(OSError), folder(root, above) as now:
        if os.path.samestat(now.info("."), here.info(".")):
            return
    raise Changed("a folder above it was moved or replaced in the meantime")

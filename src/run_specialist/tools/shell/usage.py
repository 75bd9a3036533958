"""The tasks and the memory of the processes in a sandbox: a control group where one can be made, and counting.

A control group counts every page, but only some systems let a user make one. Everywhere else the pages of the
processes are counted. Memory that no process maps, such as that of `memfd_create`, cannot be counted, so the filter of
system calls refuses it; shared memory that a process has unmapped in part is seen by the growth of the whole system's.

Sources: the kernel's documentation of proc(5), cgroup-v1/memory and cgroup-v2.
"""

import os
import re
import secrets
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

MOST_TASKS = 256
"""Maximum number of processes and threads of one command."""
GROUPS = Path("/sys/fs/cgroup")

_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
_NAME = "run-specialist-"
_SHARED = re.compile(rb"^([0-9a-f]+)-([0-9a-f]+) ...s ([0-9a-f]+) (\S+ \d+) +/(?:dev/zero|SYSV|memfd:)", re.MULTILINE)
"""A mapping of memory that processes share: its addresses, offset, and object."""
_KIBIBYTES = re.compile(rb"^(Pss_Anon|SwapPss):\s+(\d+) kB", re.MULTILINE)
_EACH_TIME = 5
"""Number of measurements after which shared memory is counted, too."""


class SandboxUsage:
    """Measures the usage of one sandbox again and again."""

    def __init__(self, most: int, folders: int) -> None:
        """Begin before the sandbox is made.

        most: maximum memory of its processes [bytes].
        folders: maximum size of its folders in memory [bytes].
        """
        self._most = most
        self._folders = folders
        self._measured = self._shared = 0
        self._shmem_before = _shared_of_system()

    def measure(self, init: int) -> tuple[int, int]:
        """Return the number of tasks of the sandbox, and its memory [bytes].

        init: its first process, whose /proc contains only the processes of the sandbox.
        """
        processes = _processes(init)
        if len(processes) > MOST_TASKS:
            # Looking at each takes time, in which there will be more.
            return len(processes), 0
        tasks, private = 0, 0
        for one in processes:
            with suppress(OSError, ValueError, IndexError):
                tasks += (one / "task").stat().st_nlink - 2
                resident, shared = map(int, (one / "statm").read_bytes().split()[1:3])
                private += (resident - shared) * _PAGE
        if self._measured % _EACH_TIME == 0:
            self._shared = self._shared_memory(processes)
        self._measured += 1
        if private + self._shared > self._most:
            # After a fork processes have the same pages, of which each is to count once.
            private = _proportional(processes, private)
        return tasks, private + self._shared

    def _shared_memory(self, processes: Sequence[Path]) -> int:
        """Return the size of the memory that processes share without a file [bytes]."""
        ends: dict[bytes, int] = {}
        for one in processes:
            with suppress(OSError):
                for begin, end, offset, thing in _SHARED.findall((one / "maps").read_bytes()):
                    size = int(end, 16) - int(begin, 16) + int(offset, 16)
                    ends[thing] = max(ends.get(thing, 0), size)
        if not ends:
            return 0
        # An object keeps its pages as long as any part of it is mapped.
        grown = _shared_of_system() - self._shmem_before - self._folders
        return max(sum(ends.values()), grown if grown > self._most else 0)


def _processes(init: int) -> list[Path]:
    here = Path(f"/proc/{init}/root/proc")
    with suppress(OSError):
        # Before the sandbox is made, those are the processes of the host.
        if here.stat().st_dev != Path("/proc").stat().st_dev:
            return [one for one in here.iterdir() if one.name.isdecimal()]
    return []


def _proportional(processes: Sequence[Path], otherwise: int) -> int:
    """Return the private memory of processes, a page of several of them counted once, with what is swapped [bytes].

    otherwise: returned if the kernel does not report it.
    """
    total, is_known = 0, False
    for one in processes:
        with suppress(OSError):
            found = _KIBIBYTES.findall((one / "smaps_rollup").read_bytes())
            is_known = is_known or any(name == b"Pss_Anon" for name, _ in found)
            total += sum(int(size) * 1024 for _, size in found)
    return total if is_known else otherwise


def _shared_of_system() -> int:
    """Return the shared memory and the folders in memory of the whole system [bytes]."""
    with suppress(OSError, ValueError):
        found = re.search(rb"^Shmem:\s+(\d+) kB", Path("/proc/meminfo").read_bytes(), re.MULTILINE)
        return int(found[1]) * 1024 if found else 0
    return 0


@dataclass(frozen=True, slots=True)
class MemoryGroup:
    """A control group that limits the memory of one sandbox."""

    folder: Path

    @classmethod
    def make(cls, most: int) -> "MemoryGroup | None":
        """Make a group; None if this system has none that can be made.

        most: maximum memory of its processes, with folders in memory [bytes].
        """
        for above, limits in _places():
            _remove_old(above)
            group = cls(above / f"{_NAME}{os.getpid()}-{secrets.token_hex(4)}")
            try:
                group.folder.mkdir()
                (group.folder / limits[0]).write_text(str(most))
            except OSError:
                group.remove()
                continue
            # Not every kernel has these.
            with suppress(OSError):
                (group.folder / limits[1]).write_text("0" if limits[1] == "memory.swap.max" else str(most))
            return group
        return None

    def entering(self, command: Sequence[str]) -> list[str]:
        """Return a command that enters the group and then becomes another one, which runs in any case."""
        enter = 'echo $$ 2>/dev/null > "$0"; exec "$@"'
        return ["/bin/sh", "-c", enter, str(self.folder / "cgroup.procs"), *command]

    @property
    def has_killed(self) -> bool:
        """Whether the kernel has ended a process because of the limit."""
        for name in ("memory.events", "memory.oom_control"):
            with suppress(OSError):
                found = re.search(r"^oom_kill (\d+)", (self.folder / name).read_text(), re.MULTILINE)
                if found:
                    return int(found[1]) > 0
        return False

    def remove(self) -> None:
        """Remove the group; it must be empty."""
        with suppress(OSError):
            self.folder.rmdir()


def _places() -> Iterator[tuple[Path, tuple[str, str]]]:
    """Yield the folders in which a group may be made, with the files of its limits of memory and swap."""
    try:
        lines = Path("/proc/self/cgroup").read_text("utf-8", "replace").splitlines()
    except OSError:
        return
    for line in lines:
        _, kinds, path = line.split(":", 2)
        own = path.strip("/")
        if kinds == "memory":
            yield GROUPS / "memory" / own, ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes")
        elif not kinds and own:
            # A group with processes has no others below it that limit memory, but one beside it may.
            yield (GROUPS / own).parent, ("memory.max", "memory.swap.max")


def _remove_old(above: Path) -> None:
    """Remove the groups of processes that were killed; those with processes cannot be removed."""
    with suppress(OSError):
        for one in above.iterdir():
            if one.name.startswith(_NAME) and not Path("/proc", one.name.split("-")[2]).exists():
                with suppress(OSError):
                    one.rmdir()

"""Determine what this machine can offer a model: free memory, and useful threads."""

import os
from contextlib import suppress
from pathlib import Path

_CGROUP = Path("/sys/fs/cgroup")
_SMT = Path("/sys/devices/system/cpu/smt/active")


def free_memory() -> int | None:
    """Return the memory available to a new process, within the limit of a container [bytes]; None if unknown."""
    free = _available() or _total()
    limit = _number(_CGROUP / "memory.max")
    if free is None or limit is None:
        return free
    used = (_number(_CGROUP / "memory.current") or 0) - (_field(_CGROUP / "memory.stat", "inactive_file") or 0)
    return min(free, max(limit - used, 0))


def useful_threads() -> int:
    """Return the number of useful threads: one for each core that this process may use.

    Two threads on one core share its arithmetic units, and threads beyond the quota of a container are throttled.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with suppress(OSError):
        if _SMT.read_text().strip() == "1":
            cores //= 2
    with suppress(OSError, ValueError):
        quota, period = (_CGROUP / "cpu.max").read_text().split()
        cores = min(cores, round(int(quota) / int(period)))
    return max(cores, 1)


def _available() -> int | None:
    kilobytes = _field(Path("/proc/meminfo"), "MemAvailable:")
    return None if kilobytes is None else kilobytes * 1024


def _total() -> int | None:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None


def _field(path: Path, name: str) -> int | None:
    """Return the number after a name in a file of the kernel."""
    with suppress(OSError, ValueError, IndexError):
        for line in path.read_text().splitlines():
            if line.startswith(name):
                return int(line.split()[1])
    return None


def _number(path: Path) -> int | None:
    with suppress(OSError, ValueError):
        return int(path.read_text())
    return None

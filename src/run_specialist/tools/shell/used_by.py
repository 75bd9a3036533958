"""The resource usage of the processes in a sandbox, as the kernel reports it."""

import os
from contextlib import suppress
from pathlib import Path

MOST_TASKS = 256
"""Maximum number of processes and threads of one command."""

_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


def used_by(init: int) -> tuple[int, int]:
    """Return the number of tasks of a sandbox, and its private memory [bytes].

    init: its first process, whose /proc contains only the processes of the sandbox.
    """
    here, tasks, memory = Path(f"/proc/{init}/root/proc"), 0, 0
    with suppress(OSError):
        if here.stat().st_dev == Path("/proc").stat().st_dev:
            # The sandbox is not made yet: those are the processes of the host.
            return 0, 0
        processes = [one for one in here.iterdir() if one.name.isdecimal()]
        if len(processes) > MOST_TASKS:
            # Looking at each takes time, in which there will be more.
            return len(processes), 0
        for one in processes:
            with suppress(OSError, ValueError, IndexError):
                tasks += (one / "task").stat().st_nlink - 2
                resident, shared = map(int, (one / "statm").read_bytes().split()[1:3])
                memory += (resident - shared) * _PAGE
    return tasks, memory

"""Resources of a process before and after: tasks, threads, descriptors, child processes and temporary files."""

import asyncio
import gc
import os
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

ROUNDS, A_LITTLE = 3_000, 0.01
"""Number of checks for resources that are still being released, and the pause after each [s]."""
POOLED = ("asyncio_", "AnyIO worker thread")
"""Names of threads that an event loop keeps until it ends."""


@dataclass(frozen=True)
class Census:
    """The resources that exist at one moment, each with an identifying name."""

    tasks: frozenset[object]
    threads: frozenset[str]
    descriptors: frozenset[str]
    children: frozenset[str]
    files: frozenset[str]
    """Paths below the folder for temporary files."""
    began: float = field(default_factory=time.monotonic)

    @classmethod
    def take(cls) -> "Census":
        """Record the resources of this process, without the threads that an event loop keeps.

        Files are counted below the folder in TMPDIR, if that is set; no other process should use the folder.
        """
        try:
            tasks = frozenset(asyncio.all_tasks() - {asyncio.current_task()})
        except RuntimeError:
            tasks = frozenset()
        threads = (f"{one.name} {one.ident}" for one in threading.enumerate() if not one.name.startswith(POOLED))
        own = os.environ.get("TMPDIR")
        files = map(str, Path(own).rglob("*")) if own else ()
        return cls(tasks, frozenset(threads), frozenset(_descriptors()), frozenset(_children()), frozenset(files))

    def new_since(self, before: "Census") -> list[str]:
        """Return the resources that did not exist before, one per line."""
        return [
            f"{kind}: {one}"
            for kind in ("tasks", "threads", "descriptors", "children", "files")
            for one in sorted(map(str, getattr(self, kind) - getattr(before, kind)))
        ]


def left_since(before: Census) -> list[str]:
    """Return the leaked resources, after waiting for those still being released; call it outside an event loop."""
    for waited in range(ROUNDS):
        if not (left := Census.take().new_since(before)):
            break
        _collect(waited)
        time.sleep(A_LITTLE)
    return left


async def leaks_since_async(before: Census) -> list[str]:
    """Return the leaked resources like `left_since`, without blocking the event loop."""
    for waited in range(ROUNDS):
        if not (left := Census.take().new_since(before)):
            break
        _collect(waited)
        await asyncio.sleep(A_LITTLE)
    return left


def _collect(waited: int) -> None:
    """Run the garbage collector in a few rounds only, because a collection takes longer than a round."""
    if waited % 100 == 50:  # after half a second, then each second
        gc.collect()


def resident() -> int:
    """Return the resident memory of the process [bytes]."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


def _descriptors() -> Iterator[str]:
    for number in os.listdir("/proc/self/fd"):  # noqa: PTH208 - descriptors, including that of the listing itself
        with suppress(FileNotFoundError):
            yield f"{number} {Path('/proc/self/fd', number).readlink()}"


def _children() -> Iterator[str]:
    for thread in Path("/proc/self/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):
            yield from (thread / "children").read_text().split()

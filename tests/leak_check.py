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
"""What is on its way out is waited for so many times, so long [s]."""
POOLED = ("asyncio_", "AnyIO worker thread")
"""Names of threads that an event loop keeps until it ends."""


@dataclass(frozen=True)
class Census:
    """The resources that exist at one moment, each with a name to recognise it by."""

    tasks: frozenset[object]
    threads: frozenset[str]
    descriptors: frozenset[str]
    children: frozenset[str]
    files: frozenset[str]
    """Below the folder for temporary files."""
    began: float = field(default_factory=time.monotonic)

    @classmethod
    def take(cls) -> "Census":
        """Count; inside of an event loop without the threads that it keeps.

        Files count below the folder that TMPDIR names, if it does: it should be nobody else's.
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
        """Return what was not there before, each in a line."""
        return [
            f"{kind}: {one}"
            for kind in ("tasks", "threads", "descriptors", "children", "files")
            for one in sorted(map(str, getattr(self, kind) - getattr(before, kind)))
        ]


def left_since(before: Census) -> list[str]:
    """Return what is left over, after waiting a little for what is on its way out; outside of an event loop."""
    for waited in range(ROUNDS):
        if not (left := Census.take().new_since(before)):
            break
        _collect(waited)
        time.sleep(A_LITTLE)
    return left


async def still_left_since(before: Census) -> list[str]:
    """Return what is left over, as `left_since` does; the event loop goes on meanwhile."""
    for waited in range(ROUNDS):
        if not (left := Census.take().new_since(before)):
            break
        _collect(waited)
        await asyncio.sleep(A_LITTLE)
    return left


def _collect(waited: int) -> None:
    """Look for garbage now and then: it takes longer than what is on its way out."""
    if waited % 100 == 50:  # after half a second, then each second
        gc.collect()


def resident() -> int:
    """Return how much memory the process has [bytes]."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


def _descriptors() -> Iterator[str]:
    for number in os.listdir("/proc/self/fd"):  # noqa: PTH208 - descriptors, including that of the listing itself
        with suppress(FileNotFoundError):
            yield f"{number} {Path('/proc/self/fd', number).readlink()}"


def _children() -> Iterator[str]:
    for thread in Path("/proc/self/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):
            yield from (thread / "children").read_text().split()

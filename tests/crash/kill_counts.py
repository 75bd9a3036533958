"""Counters for the remaining kills and the outcomes so far."""

import threading
from collections import Counter
from dataclasses import dataclass, field
from typing import Self


@dataclass
class KillCounts:
    """Counts of all kills and of their effects."""

    kills: int = 0
    runs: int = 0
    requests: int = 0
    """Number of answered requests."""
    calls: int = 0
    """Number of stored calls."""
    lost_replies: int = 0
    """Replies that were sent but not stored, so that the requests were repeated."""
    told_and_lost: int = 0
    """Replies among them that the program had already reported as an event."""
    broken_off: int = 0
    """Calls that were running when their process was killed."""
    lost_outputs: int = 0
    """Calls among them that had just returned."""
    retried: int = 0
    """Calls among them that the model made again."""
    not_on_record: int = 0
    """Processes killed before their run was stored."""
    after_the_end: int = 0
    """Processes killed after the outcome of their run was stored."""
    struck: Counter[str] = field(default_factory=Counter)
    """Kills by the activity that they interrupted."""
    left_as: Counter[str] = field(default_factory=Counter)
    """Kills by the status of the run afterwards."""

    def __iadd__(self, other: "KillCounts") -> Self:
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)
        return self


class Kills:
    """The remaining kills of all parallel loops together; below 0 if two loops took the last one."""

    def __init__(self, count: int) -> None:
        self.left = count
        self._lock = threading.Lock()

    def take(self) -> None:
        """Subtract one kill."""
        with self._lock:
            self.left -= 1

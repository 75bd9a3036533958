"""Counters for the remaining kills and the outcomes so far."""

import threading
from collections import Counter
from dataclasses import dataclass, field
from typing import Self


@dataclass
class KillCounts:
    """The outcomes of all kills."""

    kills: int = 0
    runs: int = 0
    requests: int = 0
    """That were answered."""
    calls: int = 0
    """That are stored."""
    lost_replies: int = 0
    """Answered and not stored: asked for once more."""
    told_and_lost: int = 0
    """Replies among those that the program had told of by an event."""
    broken_off: int = 0
    """Calls under way when their process was killed."""
    lost_outputs: int = 0
    """Calls among those that had just returned."""
    retried: int = 0
    """Calls among those that the model made once more."""
    not_on_record: int = 0
    """Processes that were killed before their run was stored."""
    after_the_end: int = 0
    """Processes that were killed when their run had its outcome already."""
    struck: Counter[str] = field(default_factory=Counter)
    """Kills by what was under way."""
    left_as: Counter[str] = field(default_factory=Counter)
    """By the status that runs had afterwards."""

    def __iadd__(self, other: "KillCounts") -> Self:
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)
        return self


class Kills:
    """The remaining kills of all lanes together; below 0 if two lanes took the last one."""

    def __init__(self, count: int) -> None:
        self.left = count
        self._lock = threading.Lock()

    def take(self) -> None:
        """Note that one was made."""
        with self._lock:
            self.left -= 1

"""What the server counts of each run."""

import time
from dataclasses import asdict, dataclass, field
from typing import Any

from bench.server.cache import Cache, Input

_SCHEDULED = 2
"""Linux: the clock of a process's CPU time, as its scheduler counts it."""


@dataclass(slots=True)
class Tally:
    """One run as the server saw it."""

    requests: int = 0
    calls: int = 0
    """Tool calls that the model has made."""
    first_at: float = 0.0
    """When its first request had come, by the clock that all processes share [s]."""
    first_cpu: float | None = None
    """CPU time that the watched process had used by then [s]."""
    bytes_in: int = 0
    busy: float = 0.0
    """Time that the server worked on its requests [s]."""
    billed: float = 0.0
    """What its input costs, in plain input tokens."""
    refused: list[str] = field(default_factory=list)
    """Why requests were not answered."""
    cache: Cache = field(default_factory=Cache, repr=False)
    pid: int | None = None
    """The process whose CPU time is read when the first request comes."""

    def came(self, size: int) -> None:
        """Count a request of so many bytes."""
        if not self.requests:
            self.first_at = time.monotonic()
            self.first_cpu = None if self.pid is None else cpu_of(self.pid)
        self.requests += 1
        self.bytes_in += size

    def pay(self, request: dict[str, Any]) -> Input:
        """Account for the input of a request and return it."""
        paid = self.cache.account(request)
        self.billed += paid.billed
        return paid

    def as_json(self) -> dict[str, Any]:
        """Return what is told of it."""
        told = asdict(self, dict_factory=lambda pairs: {key: value for key, value in pairs if key != "cache"})
        return told | {"refused": self.refused[:3], "refusals": len(self.refused)}


def cpu_of(pid: int) -> float | None:
    """Return the CPU time of another process [s]; None where the system does not tell it."""
    try:
        return time.clock_gettime((~pid << 3) | _SCHEDULED)
    except (OSError, AttributeError):
        return None

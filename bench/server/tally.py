"""Statistics of a run on the server."""

import time
from dataclasses import asdict, dataclass, field
from typing import Any

from bench.server.cache import Cache, Input

_SCHEDULED = 2
"""Linux: clock id bits for the CPU time of a process (`CPUCLOCK_SCHED`)."""


@dataclass(slots=True)
class Tally:
    """Statistics of one run."""

    requests: int = 0
    calls: int = 0
    """Tool calls made by the model."""
    first_at: float = 0.0
    """Arrival of the first request, on the monotonic clock of the system [s]."""
    first_cpu: float | None = None
    """CPU time of the watched process until then [s]."""
    bytes_in: int = 0
    busy: float = 0.0
    """Time spent by the server on requests [s]."""
    billed: float = 0.0
    """Cost of the input [plain input tokens]."""
    refused: list[str] = field(default_factory=list)
    """Reasons for rejected requests."""
    cache: Cache = field(default_factory=Cache, repr=False)
    pid: int | None = None
    """Process whose CPU time is read when the first request arrives."""

    def came(self, size: int) -> None:
        """Count a request.

        size: Length of its body [bytes].
        """
        if not self.requests:
            self.first_at = time.monotonic()
            self.first_cpu = None if self.pid is None else cpu_of(self.pid)
        self.requests += 1
        self.bytes_in += size

    def pay(self, request: dict[str, Any]) -> Input:
        """Add the cost of a request's input and return the input by price."""
        paid = self.cache.account(request)
        self.billed += paid.billed
        return paid

    def as_json(self) -> dict[str, Any]:
        """Return the statistics as JSON types, with at most three reasons for rejection."""
        values = asdict(self, dict_factory=lambda pairs: {key: value for key, value in pairs if key != "cache"})
        return values | {"refused": self.refused[:3], "refusals": len(self.refused)}


def cpu_of(pid: int) -> float | None:
    """Return the CPU time of another process [s]; None if the system does not provide it."""
    try:
        return time.clock_gettime((~pid << 3) | _SCHEDULED)
    except (OSError, AttributeError):
        return None

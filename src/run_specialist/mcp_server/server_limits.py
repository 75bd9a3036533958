"""How much a server over HTTP does at the same time, and how long it waits for its clients."""

import sys
from dataclasses import dataclass, field

from run_specialist.mcp_server.http_connection import TimeLimits
from run_specialist.mcp_server.notices import INTERVAL

IDLE = 30 * 60
"""After so long without a request a session is forgotten; its client is told to begin another one [s]."""
MOST_SESSIONS = 2_000
"""Where one more begins, the one that has been idle longest ends. Each takes about 40 kB."""
MOST_CONNECTIONS = 512
"""Where one more comes, the one that has waited longest for its client is closed."""


def most_connections() -> int:
    """Return the bound on connections: half of the descriptors that may be open, as runs need some, too."""
    if sys.platform == "win32":
        return MOST_CONNECTIONS
    import resource  # noqa: PLC0415 - not on Windows

    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if descriptors == resource.RLIM_INFINITY:
        return MOST_CONNECTIONS
    return max(min(MOST_CONNECTIONS, descriptors // 2), 1)


@dataclass(frozen=True)
class ServerLimits:
    """The bounds of one server."""

    times: TimeLimits = field(default_factory=TimeLimits)
    connections: int = field(default_factory=most_connections)
    """Open at the same time."""
    sessions: int = MOST_SESSIONS
    """Of the older protocol, at the same time."""
    idle: float = IDLE
    """After so long without a request a session ends [s]."""
    interval: float = INTERVAL
    """Between two lines about connections that were closed [s]."""

    @property
    def requests(self) -> int:
        """How many are answered at the same time: some connections are left to refuse further ones with an answer."""
        return max(self.connections * 7 // 8, 1)

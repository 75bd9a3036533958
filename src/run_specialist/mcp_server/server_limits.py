"""Limits of the HTTP server: concurrency and timeouts."""

import sys
from dataclasses import dataclass, field

from run_specialist.mcp_server.http_connection import TimeLimits
from run_specialist.mcp_server.notices import INTERVAL

IDLE = 30 * 60
"""Idle timeout of a session; clients must then start a new session [s]."""
MOST_SESSIONS = 2_000
"""Maximum number of sessions, about 40 kB each; beyond it, the session that has been idle longest ends."""
MOST_CONNECTIONS = 512
"""Maximum number of connections; beyond it, the connection that has waited longest for its client is closed."""


def most_connections() -> int:
    """Return the connection limit: at most half of the available file descriptors, because runs need some, too."""
    if sys.platform == "win32":
        return MOST_CONNECTIONS
    import resource  # noqa: PLC0415 - not on Windows

    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if descriptors == resource.RLIM_INFINITY:
        return MOST_CONNECTIONS
    return max(min(MOST_CONNECTIONS, descriptors // 2), 1)


@dataclass(frozen=True)
class ServerLimits:
    """The limits of one server."""

    times: TimeLimits = field(default_factory=TimeLimits)
    connections: int = field(default_factory=most_connections)
    """Maximum number of open connections."""
    sessions: int = MOST_SESSIONS
    """Maximum number of sessions; only older protocol versions have them."""
    idle: float = IDLE
    """Idle timeout of a session [s]."""
    interval: float = INTERVAL
    """Minimum time between two messages about closed connections [s]."""

    @property
    def requests(self) -> int:
        """Maximum number of concurrent requests; the other connections are reserved for refusing requests."""
        return max(self.connections * 7 // 8, 1)

"""Decide when a batch pauses or ends because the endpoint fails; pure: the caller passes the time."""

import math
from dataclasses import dataclass

PAUSING = frozenset({"rate_limited", "overloaded", "quota", "connection", "server_error"})
"""Kinds of failures that may pass with time."""
ENDING = frozenset({"credentials", "model_missing"})
"""Kinds of failures for which waiting does not help."""
MAY_BE_THE_ITEM = frozenset({"connection", "server_error"})
"""Kinds of failures that a single item may cause even if the endpoint works."""

USAGE = "usage"
"""Kind of failure if no run could begin for an item."""

FAILURES = 3
"""Default number of failures in a row that open the breaker."""
FIRST_PAUSE, LONGEST_PAUSE = 30.0, 600.0
"""Bounds of a pause whose length the server does not name [s]."""
SHORTEST_PAUSE = 1.0
"""Minimum duration of a pause [s]."""
PAUSE_LIMIT = 3600.0
"""Default maximum duration of one pause with all its probes [s]."""


@dataclass(frozen=True, slots=True)
class Pause:
    """A pause of a batch, in which only single items begin, as probes of the endpoint."""

    kind: str
    """`Outcome.error_kind` of the failures."""
    reason: str
    """The last error, in one line."""
    until: float
    """Time of the next probe [seconds since 1970]."""


class Breaker:
    """A circuit breaker: closed while items may begin, opened by consecutive failures, closed by an answered probe."""

    def __init__(self, failures: int = FAILURES, pause_limit: float = PAUSE_LIMIT) -> None:
        """Start closed.

        failures: number of consecutive failures of the same kind that open the breaker, at least 1.
        pause_limit: maximum duration of a pause, after which the batch ends [s].
        """
        self._needed = failures
        self._pause_limit = pause_limit
        self._kind = ""
        """The kind of the consecutive failures."""
        self._failed: list[str] = []
        """The items that failed consecutively, by run id."""
        self.has_answered = False
        """Whether a request was answered since the batch began."""
        self._opened_at = 0.0
        self._pauses = 0
        self._is_probing = False
        self.pause: Pause | None = None
        """The current pause; None while items may begin."""
        self.ended: str | None = None
        """The kind of failure that ended the batch."""
        self.reason: str | None = None
        """The error of the newest pause, or of the end."""

    def wait(self, now: float) -> float:
        """Return the time until an item may begin [s]; infinity while a probe is in progress."""
        if self.pause is None:
            return 0.0
        return math.inf if self._is_probing else max(self.pause.until - now, 0.0)

    def begin(self) -> bool:
        """Register the start of an item; return whether it is a probe."""
        self._is_probing = self.pause is not None
        return self._is_probing

    def probe_ended(self) -> None:
        """Register the end of a probe; if it was neither answered nor failed, another one may begin."""
        self._is_probing = False

    def answered(self, *, is_probe: bool) -> bool:
        """Register that a request of an item was answered; return whether that ends a pause."""
        self.has_answered = True
        if not is_probe:
            return False
        self._is_probing, self.pause = False, None
        self.worked()
        return True

    def worked(self) -> None:
        """Register an item that ended without an endpoint failure."""
        if self.pause is None:
            self._failed.clear()

    def failed(  # noqa: PLR0913 - what is known of the failure
        self, run_id: str, kind: str, reason: str, retry_after: float | None, now: float, *, is_probe: bool = False
    ) -> bool:
        """Register an endpoint failure of an item; return whether the batch pauses or ends.

        retry_after: the wait that the server requests [s].
        """
        if self.ended is not None:
            return True
        if self.pause is not None:
            if kind == USAGE:
                return False
            if is_probe:
                self._is_probing = False
                self._wait(kind, reason, retry_after, now)
            return True
        # Only the same error again says that no run can begin for any item.
        same = reason if kind == USAGE else kind
        if same != self._kind:
            self._kind, self._failed = same, []
        if run_id not in self._failed or kind not in MAY_BE_THE_ITEM:
            self._failed.append(run_id)
        # Before any answer a wrong key or model needs no second look: it is the same for all items.
        needed = 1 if kind in ENDING and not self.has_answered else self._needed
        if len(self._failed) < needed or (kind == USAGE and self.has_answered):
            return False
        self._opened_at, self._pauses = now, 0
        if kind in PAUSING:
            self._wait(kind, reason, retry_after, now)
        else:
            self.ended, self.reason = kind, reason
        return True

    def _wait(self, kind: str, reason: str, retry_after: float | None, now: float) -> None:
        """Pause from now on, or end if the pause would last too long."""
        self.reason = reason
        left = self._opened_at + self._pause_limit - now
        own = min(FIRST_PAUSE * 2**self._pauses, LONGEST_PAUSE, max(left, SHORTEST_PAUSE))
        asked = 0.0 if retry_after is None else max(retry_after, SHORTEST_PAUSE)
        # The first wait is that of the server. If it was too short, so that the probe failed, the next is longer.
        seconds = asked if asked and not self._pauses else max(asked, own)
        self._pauses += 1
        if kind not in PAUSING or seconds > left:
            self.pause, self.ended = None, kind
        else:
            self.pause = Pause(kind, reason, now + seconds)

"""Decide when a request to an endpoint may begin: pure values, and transitions on time, replies and refusals.

Times are seconds of any one clock. Inspired by the adaptive connections of inspect-ai, which start with 20 requests,
shrink less and grow faster: https://inspect.aisi.org.uk/models-concurrency.html
"""

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

OVERLOADED = frozenset({429, 503, 529})
"""HTTP statuses for too many requests."""
TOO_MANY = 429
"""The status that concerns the key, not the load of the server."""
MINUTE = 60.0
"""Time without a refusal after which one more request is allowed; a longer `retry-after` closes the gate [s]."""
GENEROUS = 20
"""Minimum that the first refusal halves, because a few concurrent requests are hardly its cause."""
LONGEST_CLOSING = 3600.0
"""Maximum time for which a gate stays closed, whatever the API has requested [s]."""
PROBE_SPACING = 10.0
"""Time between two probes whether the API accepts requests again [s]."""


class Cause(StrEnum):
    """Why a request has to wait."""

    CLOSED = "closed"
    """The API has requested that nothing is sent before a certain time."""
    PROBE = "probe"
    """After such a time, another request goes first as a probe."""
    AT_ONCE = "at_once"
    """The maximum number of requests is running."""
    ORDER = "order"
    """Other requests have waited longer."""


@dataclass(frozen=True, slots=True)
class Obstacle:
    """The reason why a request has to wait."""

    cause: Cause
    reason: str
    """The reason for the user, in one line."""
    until: float | None = None
    """Time of the next check [s]; None = when another request ends."""

    @property
    def is_refusal(self) -> bool:
        """True if the request would be refused; waiting then counts against the patience of its run."""
        return self.cause in {Cause.CLOSED, Cause.PROBE}

    def seconds(self, now: float) -> float | None:
        """Return the duration of the wait [s]; None if it depends on other requests."""
        if self.until is None or self.cause is not Cause.CLOSED:
            return None
        return round(max(self.until - now, 0), 3)


@dataclass(frozen=True, slots=True)
class RateLimitRefusal:
    """A reply that refuses a request because of too many requests."""

    status: int
    wait: float | None
    """Wait that the API requests [s]; may be infinite, None = it requests none."""
    reason: str
    """The reason in one line, without secrets."""


class InFlightRequest(NamedTuple):
    """A running request."""

    at: float
    """Time of its start [s]."""
    model: str
    is_probe: bool = False


class GateState(NamedTuple):
    """The state of the gate of one endpoint and key."""

    under_way: int = 0
    most: int | None = None
    """Maximum of running requests at `quiet_since`, plus one for each minute after that; None = no limit."""
    cut_at: float = 0.0
    """Time when `most` was last halved [s]."""
    quiet_since: float = 0.0
    """Time of the last refusal [s]."""
    closed_until: float = 0.0
    needs_probe: bool = False
    """Whether only one request at a time is sent, because none was accepted since the gate was closed."""
    probed_at: float | None = None
    """Start of the newest probe [s]; None = the next one may begin."""
    refusal: RateLimitRefusal | None = None
    """The newest refusal that closed the gate."""
    closed_for: frozenset[str] = frozenset()
    """The models whose requests were refused since the gate was last open."""

    def limit(self, now: float) -> int | None:
        """Return the maximum number of running requests; None = any number."""
        if self.most is None:
            return None
        return self.most + max(int((now - self.quiet_since) // MINUTE), 0)

    def obstacle(
        self, now: float, model: str, ceiling: int | None = None, *, has_changed_model: bool = False
    ) -> Obstacle | None:
        """Return the reason why a request has to wait; None if it may begin.

        ceiling: maximum number of running requests, at least 1; None = any number.
        has_changed_model: whether its run has used another model before; refusals of that one do not affect this
            request.
        """
        reason = self.refusal.reason if self.refusal else ""
        is_free = self._passes(model, has_changed_model=has_changed_model)
        if now < self.closed_until and not is_free:
            return Obstacle(Cause.CLOSED, reason, self.closed_until)
        if not is_free and self.needs_probe and self.probed_at is not None and now < self.probed_at + PROBE_SPACING:
            return Obstacle(Cause.PROBE, reason, self.probed_at + PROBE_SPACING)
        if (most := self.limit(now)) is not None or ceiling is not None:
            at_once = int(min(math.inf if most is None else most, math.inf if ceiling is None else ceiling))
            if self.under_way >= at_once:
                return self._full(now, at_once, is_adaptive=most == at_once)
        return None

    def _passes(self, model: str, *, has_changed_model: bool) -> bool:
        """Return whether a request may pass a closed gate, because only other models were refused."""
        return has_changed_model and model not in self.closed_for

    def _full(self, now: float, at_once: int, *, is_adaptive: bool) -> Obstacle:
        requests = f"at most {at_once} request{'s' * (at_once > 1)} at once"
        if not is_adaptive:
            return Obstacle(Cause.AT_ONCE, f"{requests} (requests_at_once)")
        grows_at = now + MINUTE - (now - self.quiet_since) % MINUTE
        return Obstacle(Cause.AT_ONCE, f"{requests}, because the API refused more", grows_at)

    def begin(self, now: float, model: str, *, has_changed_model: bool = False) -> tuple["GateState", InFlightRequest]:
        """Return the state after a request has begun, and the request; the arguments are those of `obstacle`."""
        is_probe = self.needs_probe and not self._passes(model, has_changed_model=has_changed_model)
        state = self._replace(under_way=self.under_way + 1, probed_at=now if is_probe else self.probed_at)
        return state, InFlightRequest(now, model, is_probe)

    def accepted(self, begun: InFlightRequest) -> "GateState":
        """Return the state after the API began to reply to a request."""
        return self._replace(needs_probe=False, probed_at=None) if begun.is_probe and self.needs_probe else self

    def refused(self, now: float, begun: InFlightRequest, refusal: RateLimitRefusal) -> "GateState":
        """Return the state after the API refused a running request."""
        state = self._halved(now, begun)
        wait = min(refusal.wait or 0, LONGEST_CLOSING)
        if wait <= 0 or (wait <= MINUTE and refusal.status != TOO_MANY):
            return state
        before = self.closed_for if now < self.closed_until or self.needs_probe else frozenset[str]()
        return state._replace(
            closed_until=max(self.closed_until, now + wait),
            needs_probe=self.needs_probe or wait > MINUTE,
            refusal=refusal,
            closed_for=before | {begun.model},
        )

    def _halved(self, now: float, begun: InFlightRequest) -> "GateState":
        """Return the state with half the limit, unless the request began before the limit was last halved."""
        before = self.limit(now)
        if before is None:
            before = max(self.under_way, GENEROUS)
        elif begun.at <= self.cut_at:
            return self._replace(most=before, quiet_since=now)
        return self._replace(most=max(before // 2, 1), cut_at=now, quiet_since=now)

    def ended(self, begun: InFlightRequest, *, was_refused: bool = False) -> "GateState":
        """Return the state after a request has ended, in any way."""
        # A probe that was neither accepted nor refused proves nothing; the next one may begin immediately.
        is_void = begun.is_probe and not was_refused and self.needs_probe and self.probed_at == begun.at
        return self._replace(under_way=max(self.under_way - 1, 0), probed_at=None if is_void else self.probed_at)

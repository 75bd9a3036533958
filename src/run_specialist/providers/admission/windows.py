"""The remaining rate limits of an API, as reported by its headers; pure values.

A window is one limit, e.g. of input tokens per minute. The headers of a reply report the remainder and the time when
the window is full again. Requests that began later are subtracted as estimated, and corrected once their usage is
known.
"""

import math
from bisect import bisect_left
from collections.abc import Iterable
from typing import NamedTuple

ARRIVAL = 2.0
"""Time within which requests may reach the API in another order than they began [s]."""
MOST_SENT = 32
"""Maximum number of such requests that are remembered."""
LONGEST_RESET = 60.0
"""Maximum wait for a window, because a header may be wrong [s]."""


class Cost(NamedTuple):
    """The consumption of one or more requests by kind of limit; estimated before the reply, exact after it."""

    requests: float = 1
    tokens: float = 0
    """Tokens that count against a limit of input and output together."""
    input_tokens: float = 0
    output_tokens: float = 0
    """Output tokens, if the API counts them before they are written."""

    def plus(self, other: "Cost") -> "Cost":
        """Return the sum."""
        requests, tokens, input_tokens, output_tokens = self
        return Cost(requests + other[0], tokens + other[1], input_tokens + other[2], output_tokens + other[3])

    def minus(self, other: "Cost") -> "Cost":
        """Return the difference."""
        requests, tokens, input_tokens, output_tokens = self
        return Cost(requests - other[0], tokens - other[1], input_tokens - other[2], output_tokens - other[3])


NOTHING = Cost(0, 0, 0, 0)


class Quota(NamedTuple):
    """One rate limit as the headers of a reply report it."""

    kind: str
    """A field of `Cost`."""
    limit: float | None
    """The size of a full window; None = not reported."""
    remaining: float
    seconds: float
    """Time until it is full again [s]."""


class Window(NamedTuple):
    """The remainder of one rate limit, as far as it is known."""

    kind: str
    limit: float | None
    remaining: float
    """Remaining amount; below 0 if more requests began than it covers."""
    resets_at: float
    """Time when it is full again [s]."""
    number: int
    """Number of the request whose reply reported it."""

    def at(self, now: float) -> "Window":
        """Return the window at a time: full after its reset, until a reply reports otherwise."""
        if now < self.resets_at:
            return self
        full = math.inf if self.limit is None else self.limit
        return self._replace(remaining=full, resets_at=now + LONGEST_RESET)

    def lacks(self, cost: Cost) -> bool:
        """Return whether a request would be refused."""
        return self.remaining < max(self.need(cost), 1)

    def need(self, cost: Cost) -> float:
        """Return the consumption of a request in this window.

        An estimate above the limit must be wrong, because no such request would ever be accepted; then the maximum
        reply is not counted in advance.
        """
        needed: float = getattr(cost, self.kind)
        return needed if self.limit is None or needed <= self.limit else min(cost.input_tokens, self.limit)


class SentRequest(NamedTuple):
    """A request that the API may not have received yet."""

    number: int
    at: float
    """Time of its start [s]."""
    cost: Cost


class ModelUse(NamedTuple):
    """The rate limits of one model; vendors count each model, or class of models, separately."""

    model: str
    begun: Cost = NOTHING
    """Estimated consumption of all requests that have begun."""
    windows: tuple[Window, ...] = ()
    sent: tuple[SentRequest, ...] = ()
    """Requests of the last seconds without a reply, at most `MOST_SENT`."""

    def obstacle(self, now: float, cost: Cost) -> Window | None:
        """Return the window that a request has to wait for longest; None if it may begin."""
        lacking = [window for one in self.windows if (window := one.at(now)).lacks(cost)]
        return max(lacking, key=lambda window: window.resets_at, default=None)

    def with_begun(self, now: float, number: int, cost: Cost) -> "ModelUse":
        """Return the use after one more request has begun."""
        # Oldest first, so that usually none or one is dropped.
        sent, first = self.sent, max(len(self.sent) - MOST_SENT, 0)
        while first < len(sent) and now - sent[first].at >= ARRIVAL:
            first += 1
        windows = (window.at(now) for window in self.windows)
        reduced = tuple([one._replace(remaining=one.remaining - one.need(cost)) for one in windows])
        return ModelUse(self.model, self.begun.plus(cost), reduced, (*sent[first:], SentRequest(number, now, cost)))

    def without(self, number: int) -> "ModelUse":
        """Return the use after a request was answered or has ended."""
        place = bisect_left(self.sent, (number,))
        if place == len(self.sent) or self.sent[place].number != number:
            return self
        return ModelUse(self.model, self.begun, self.windows, self.sent[:place] + self.sent[place + 1 :])

    def reported(self, now: float, number: int, mark: Cost, quotas: Iterable[Quota]) -> "ModelUse":
        """Return the use after the headers of a reply.

        number: number of the request. mark: value of `begun` including this request, before all later ones.
        """
        known = {window.kind: window for window in self.windows}
        others = self.begun.minus(mark)
        for each in self.sent:
            if each.number < number:
                others = others.plus(each.cost)
        for quota in quotas:
            before = known.get(quota.kind)
            # A reply that took long may be older than what is known.
            if before is None or before.number <= number or now >= before.resets_at:
                left = quota.remaining - max(getattr(others, quota.kind), 0)
                resets_at = now + min(max(quota.seconds, 0), LONGEST_RESET)
                known[quota.kind] = Window(quota.kind, quota.limit, left, resets_at, number)
        return self._replace(windows=tuple(known.values()))

    def settled(self, now: float, number: int, estimated: Cost, used: Cost) -> "ModelUse":
        """Return the use after the usage of a request is known.

        Windows reported by its reply or a later one already include it.
        """
        if all(window.number >= number for window in self.windows):
            return self
        windows = tuple(
            one._replace(remaining=one.remaining + one.need(estimated) - getattr(used, one.kind))
            if one.number < number
            else one
            for one in (window.at(now) for window in self.windows)
        )
        return self._replace(windows=windows)

"""Retry a request while the endpoint is busy or unreachable; the signal that stops a run.

The SDKs do not retry: here a wait is reported before it begins, ends with the run or its time limit, and the body of
the request is not kept in memory.
"""

import asyncio
import math
import random
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

from run_specialist.errors import ProviderError, Unavailable
from run_specialist.providers.base import Conversation, Queueing, Request
from run_specialist.record.events import Retrying, Waiting
from run_specialist.record.messages import Reply


class StopRequested(Exception):
    """A request is not sent again, because its run must stop."""


class StopSignal:
    """A request to stop a run; it cannot be withdrawn."""

    def __init__(self) -> None:
        self.is_requested = False
        """True once the run must not send another request to the model."""
        self.is_now = False
        """True once the current turn must be interrupted, too."""
        self._listeners: list[Callable[[], object]] = []

    def request(self, *, now: bool) -> None:
        """Stop the run: immediately, or after the current turn."""
        is_first, self.is_requested = not self.is_requested, True
        self.is_now = self.is_now or now
        if is_first:
            for listener in [*self._listeners]:
                listener()

    @contextmanager
    def notifying(self, listener: Callable[[], object]) -> Iterator[None]:
        """Within the block, call a function once when the run must stop; immediately if it already must."""
        if self.is_requested:
            listener()
        self._listeners.append(listener)
        try:
            yield
        finally:
            self._listeners.remove(listener)


FIRST_WAIT = 0.5
"""Wait before the first retry, which doubles with each one [s]."""
LONGEST_WAIT = 8.0
"""Maximum wait, unless the server requests a longer one [s]."""
# Fraction by which a wait is shortened at random, so that runs that failed together do not retry together.
_JITTER = 0.25
# Maximum retries after failures in which the server may have processed, and billed, the request.
_MOST_REPEATED = 2

PATIENCE_WITH_OTHERS = 10.0
"""Maximum patience while another model is available: enough for a short overload [s].

A short wait costs less than another model that reads the whole context without a cache.
"""

Ask = Callable[[Conversation, Request], Awaitable[Reply]]
"""Sends a request and returns its reply; raises ProviderError."""


@dataclass
class Retries:
    """Retries the requests of one run."""

    clock = staticmethod(time.monotonic)
    sleep = staticmethod(asyncio.sleep)

    patience: float | None
    """How long one request is retried, from its first failure [s]; 0 = never, None = without a limit."""
    notify: Callable[[Retrying], None]
    """Called before each wait."""
    waiting: Callable[[Waiting], None]
    """Called when a request waits because the endpoint accepts no more requests."""
    stop: StopSignal
    """Once requested, no request is sent again."""
    is_replaceable: Callable[[ProviderError | None], bool]
    """Whether another model would be asked after a failure, or, without one, after any failure."""
    was_stopped: bool = False
    """True once a request was abandoned because the run must stop; no more are sent."""

    async def ask(self, conversation: Conversation, request: Request, seconds: float | None = None) -> Reply:
        """Send a request, retrying while the endpoint cannot answer; return the reply.

        seconds: time left until the time limit of the run, when the caller cancels this; None without a limit.
        Raises ProviderError: the last failure, with the number of retries; StopRequested if the run is to stop.
        """
        if self.was_stopped:
            raise StopRequested
        begun, patience = self.clock(), self._patience_after(None, seconds)
        attempt = repeated = 0
        failed_at = begun
        time_limit = math.inf if seconds is None else begun + seconds
        while True:
            left = failed_at + patience - self.clock() if attempt else patience
            queueing = Queueing(self.waiting, left, time_limit, stopping=self.stop)
            try:
                return await conversation.ask(replace(request, retries=attempt, queueing=queueing))
            except Unavailable as error:
                self._raise_if_stopping()
                now, patience = self.clock(), self._patience_after(error, seconds)
                if not attempt:
                    failed_at = now if queueing.closed_since is None else queueing.closed_since
                left = failed_at + patience - now
                repeated += error.may_have_run
                if left <= 0 or repeated > _MOST_REPEATED:
                    times = "once" if attempt == 1 else f"{attempt} times"
                    retried = f"{error} (retried {times} in {now - failed_at:.0f} s)"
                    raise (error.as_final(retried) if attempt else error.as_final()) from error
                wait = _wait(error, attempt, left, time_limit - now)
                attempt += 1
                self.notify(Retrying(error.status, round(wait, 3), attempt, error.reason))
            # The wait ends early if the run is to stop.
            with suppress(TimeoutError):
                async with asyncio.timeout(None) as timeout:
                    with self.stop.notifying(lambda: timeout.reschedule(0)):
                        await self.sleep(wait)
            self._raise_if_stopping()

    def _patience_after(self, error: ProviderError | None, seconds: float | None) -> float:
        """Return how long to retry a request after a failure, or before the first one [s].

        seconds: as for `ask`; another model needs time, too.
        """
        patience = math.inf if self.patience is None else self.patience
        if not self.is_replaceable(error):
            return patience
        return min(patience, PATIENCE_WITH_OTHERS, math.inf if seconds is None else seconds / 2)

    def _raise_if_stopping(self) -> None:
        self.was_stopped = self.was_stopped or self.stop.is_requested
        if self.was_stopped:
            raise StopRequested


def backoff(attempt: int, chance: float) -> float:
    """Return the wait before a retry whose server requests none [s].

    attempt: number of the failed attempt, from 0. chance: a random number from 0 to 1.
    """
    return min(FIRST_WAIT * 2.0 ** min(attempt, 10), LONGEST_WAIT) * (1 - _JITTER * chance)


def _wait(error: Unavailable, attempt: int, left: float, time_left: float) -> float:
    """Return how long to wait before the next attempt [s].

    left, time_left: until the patience and the time limit end; the last attempt is made at that moment.
    Raises ProviderError if the server requests a longer wait than that.
    """
    own = backoff(attempt, random.random())  # noqa: S311 - no secret
    requested = error.wait or 0
    limit = min(left, time_left)
    if requested > limit or math.isinf(requested):
        allowed = "the time limit" if time_left < left else "patience"
        most = "" if math.isinf(limit) else f" ({math.floor(max(limit, 0))} seconds)"
        again = f"try again in {requested:.0f} seconds, as the API requests, longer than {allowed} allows{most}"
        raise error.as_final(f"{error.reason}; {again}") from error
    # A server that requests next to no wait, again and again, would be flooded.
    return max(min(own, limit), requested) if requested < 1 else requested

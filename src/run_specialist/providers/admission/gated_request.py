"""One request at its gate: it waits, begins, and ends, whatever happens to its run."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
from typing import Self

from run_specialist.errors import Unavailable
from run_specialist.providers.admission.gate import Gate
from run_specialist.providers.admission.policy import Cause, InFlightRequest, Obstacle, RateLimitRefusal
from run_specialist.providers.admission.windows import Cost
from run_specialist.providers.base import Queueing
from run_specialist.record.events import Waiting

NOTICE_AFTER = 1.0
"""Shorter waits are not reported [s]."""
LONGEST_SLEEP = 10.0
"""A waiting request looks again after so long, in case an event loop ended without ending its requests [s]."""


class GatedRequest:
    """One request at its gate, a context manager: entered once the request may begin, left when it has ended."""

    __slots__ = (
        "_blame",
        "_future",
        "_gate",
        "_loop",
        "_queueing",
        "begun",
        "ceiling",
        "cost",
        "has_changed_model",
        "model",
    )

    def __init__(  # noqa: PLR0913, PLR0917 - made in one place
        self,
        gate: Gate,
        model: str,
        cost: Cost,
        ceiling: int | None,
        queueing: Queueing,
        blame: Callable[[Exception], RateLimitRefusal | None],
    ) -> None:
        """Describe the request; nothing happens yet.

        cost: as estimated.
        ceiling: how many requests may be under way at the gate as long as this one waits or is; None = any number.
        blame: returns the refusal in an error of the request; None for any other error.
        """
        self._gate = gate
        self._queueing = queueing
        self._blame = blame
        self.model = model
        self.cost = cost
        self.ceiling = ceiling
        self.has_changed_model = queueing.has_changed_model
        self.begun: InFlightRequest | None = None
        """Set once the request has begun."""
        self._loop = asyncio.get_running_loop()
        self._future: asyncio.Future[None] | None = None

    async def __aenter__(self) -> Self:
        """Wait until the request may begin.

        Raises Unavailable if the gate is closed for longer than the request may wait, or its run is to stop.
        """
        try:
            obstacle = self._gate.enter(self)
            if obstacle is not None:
                stopping = self._queueing.stopping
                with nullcontext() if stopping is None else stopping.notifying(self.wake):
                    await self._wait(obstacle)
        except BaseException:
            self._gate.end(self)
            raise
        return self

    async def __aexit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        """End the request, and remember if it was refused."""
        refusal = None
        try:
            refusal = self._blame(error) if isinstance(error, Exception) else None
        finally:
            self._gate.end(self, refusal)

    def accepted(self, headers: Mapping[str, str]) -> None:
        """Register the headers of a reply that is not an error."""
        self._gate.accepted(self, headers)

    def settle(self, used: Cost) -> None:
        """Replace the estimated cost by the usage of the request."""
        self._gate.settle(self, used)

    @property
    def is_lost(self) -> bool:
        """True if its event loop was closed."""
        return self._loop.is_closed()

    def wake(self) -> None:
        """Make the request check whether it may begin; called from any thread."""
        future = self._future
        if future is None:
            return
        if asyncio._get_running_loop() is self._loop:  # noqa: SLF001 - None in other threads, unlike its public form
            _resolve(future)
        else:
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(_resolve, future)

    async def _wait(self, obstacle: Obstacle | None) -> None:
        gate, queueing = self._gate, self._queueing
        since = gate.clock()
        reason: str | None = None
        try:
            while obstacle is not None:
                now = gate.clock()
                if queueing.stopping is not None and queueing.stopping.is_requested:
                    raise Unavailable("the run was stopped while the request waited to begin")
                self._check_patience(obstacle, now)
                if reason is None and now - since >= NOTICE_AFTER:
                    reason = obstacle.reason
                    queueing.notify(Waiting("started", obstacle.seconds(now), reason))
                # From here on a change wakes this request: before, it would have been seen by `enter`.
                self._future = self._loop.create_future()
                obstacle = gate.enter(self)
                if obstacle is not None:
                    await gate.sleep(self._future, self._pause(obstacle, now, since, noticed=reason is not None))
                    if not self._future.done():
                        gate.sweep()
                    obstacle = gate.enter(self)
        finally:
            self._future = None
            gate.leave_queue(self)
        if reason is not None:
            queueing.notify(Waiting("finished", round(gate.clock() - since, 3), reason))

    def _pause(self, obstacle: Obstacle, now: float, since: float, *, noticed: bool) -> float:
        """Return how long to sleep unless another request changes something [s]."""
        ends = [now + LONGEST_SLEEP]
        if obstacle.until is not None:
            ends.append(obstacle.until)
        if not noticed:
            ends.append(since + NOTICE_AFTER)
        if self._queueing.closed_since is not None:
            ends.append(self._queueing.ends_at)
        return max(min(ends) - now, 0.001)

    def _check_patience(self, obstacle: Obstacle, now: float) -> None:
        """Raise Unavailable if the request would be refused for longer than it may wait."""
        queueing = self._queueing
        if not obstacle.is_refusal:
            queueing.closed_since = None
            return
        if queueing.closed_since is None:
            queueing.closed_since = now
        refusal = self._gate.state.refusal
        status = None if refusal is None else refusal.status
        if obstacle.cause is Cause.CLOSED and obstacle.until is not None and obstacle.until > queueing.ends_at:
            left = obstacle.until - now
            advice = f"try again in {left:.0f} seconds, as the API requests"
            raise Unavailable(obstacle.reason, advice, status=status, wait=left)
        if now >= queueing.ends_at:
            raise Unavailable(obstacle.reason, "try again later", status=status)


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)

"""The gate in front of one endpoint and key, where requests of all runs and event loops of a process begin, in order.

A request counts as running only while it is sent and answered, not while its run executes tools or waits for others.
"""

import asyncio
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Mapping
from typing import Protocol

from run_specialist.providers.admission.policy import (
    LONGEST_CLOSING,
    Cause,
    GateState,
    InFlightRequest,
    Obstacle,
    RateLimitRefusal,
)
from run_specialist.providers.admission.rate_headers import quotas
from run_specialist.providers.admission.windows import Cost

_IN_ORDER = Obstacle(Cause.ORDER, "other requests come first")


async def sleep_unless_woken(future: asyncio.Future[None], seconds: float) -> None:
    """Sleep until a future is done, or for at most this many seconds."""
    await asyncio.wait([future], timeout=seconds)


class WaitingRequest(Protocol):
    """A request as seen by its gate."""

    model: str
    cost: Cost
    """Estimated consumption."""
    ceiling: int | None
    """Maximum number of running requests while this one waits or runs; None = any number."""
    has_changed_model: bool
    """Whether its run has used another model before."""
    begun: InFlightRequest | None
    """Set by the gate once the request has begun."""

    @property
    def is_lost(self) -> bool:
        """True if its event loop was closed."""
        ...

    def wake(self) -> None:
        """Make the request check whether it may begin; may be called from any thread."""
        ...


class Gate:
    """The state of a gate, and the requests that wait there; safe to use from several event loops."""

    clock = staticmethod(time.monotonic)
    sleep = staticmethod(sleep_unless_woken)

    def __init__(self) -> None:
        self.state = GateState()
        """The current state; replaced at each change, so other threads may read it."""
        self._lock = threading.Lock()
        self._under_way: set[WaitingRequest] = set()
        self._waiting: OrderedDict[WaitingRequest, None] = OrderedDict()
        self._models: Counter[str] = Counter()
        self._ceilings: Counter[int] = Counter()

    @property
    def is_idle(self) -> bool:
        """True if no request runs or waits, and the state remembers nothing that still applies."""
        state, now = self.state, self.clock()
        remembers = now < state.closed_until or (state.most is not None and now < state.quiet_since + LONGEST_CLOSING)
        return not (self._under_way or self._waiting or remembers)

    @property
    def waiting(self) -> int:
        """Number of requests that wait."""
        return len(self._waiting)

    def enter(self, request: WaitingRequest) -> Obstacle | None:
        """Begin a request if possible; otherwise let it wait, and return the obstacle."""
        with self._lock:
            if request not in self._waiting:
                if request.ceiling is not None:
                    self._ceilings[request.ceiling] += 1
                if self._waiting:
                    self._queue(request)
            ceiling = min(self._ceilings) if self._ceilings else None
            now = self.clock()
            changed = request.has_changed_model
            obstacle = self.state.obstacle(now, request.model, request.cost, ceiling, has_changed_model=changed)
            if obstacle is None and not self._is_next(request, now):
                obstacle = _IN_ORDER
            if obstacle is None:
                self.state, request.begun = self.state.begin(
                    now, request.model, request.cost, has_changed_model=changed
                )
                self._under_way.add(request)
                self._unqueue(request)
            else:
                self._queue(request)
            return obstacle

    def _queue(self, request: WaitingRequest) -> None:
        if request not in self._waiting:
            self._waiting[request] = None
            self._models[request.model] += 1

    def _unqueue(self, request: WaitingRequest) -> None:
        if request in self._waiting:
            del self._waiting[request]
            self._models[request.model] -= 1
            if not self._models[request.model]:
                del self._models[request.model]

    def leave_queue(self, request: WaitingRequest) -> None:
        """Remove a request that has begun or was abandoned from the queue, and make the next one check."""
        with self._lock:
            self._unqueue(request)
            if request.begun is None:
                self._forget_ceiling(request)
            self._wake_first()

    def accepted(self, request: WaitingRequest, headers: Mapping[str, str]) -> None:
        """Register that the API replies to a request, with the rate limits in its headers."""
        read = quotas(headers)
        with self._lock:
            before = self.state
            if request.begun is not None:
                self.state = before.accepted(self.clock(), request.begun, read)
            if self.state is not before:
                self._wake_first()

    def end(self, request: WaitingRequest, refusal: RateLimitRefusal | None = None) -> None:
        """Register the end of a request.

        refusal: None unless the API refused it because of too many requests.
        """
        with self._lock:
            if request.begun is None or request not in self._under_way:
                return
            self._under_way.discard(request)
            self._forget_ceiling(request)
            before = self.state
            if refusal is not None:
                self.state = before.refused(self.clock(), request.begun, refusal)
            self.state = self.state.ended(request.begun, was_refused=refusal is not None)
            if self.state.closed_until > before.closed_until:
                # Each request may have less patience than that.
                self._wake_all()
            else:
                self._wake_first()

    def settle(self, request: WaitingRequest, used: Cost) -> None:
        """Replace the estimated cost of a request by its usage."""
        with self._lock:
            if request.begun is not None:
                self.state = self.state.settled(self.clock(), request.begun, used)

    def sweep(self) -> None:
        """End the requests of event loops that were closed without ending them."""
        for request in [request for request in tuple(self._under_way) if request.is_lost]:
            self.end(request)
        for request in [request for request in tuple(self._waiting) if request.is_lost]:
            self.leave_queue(request)

    def _forget_ceiling(self, request: WaitingRequest) -> None:
        if request.ceiling is not None:
            self._ceilings[request.ceiling] -= 1
            if self._ceilings[request.ceiling] <= 0:
                del self._ceilings[request.ceiling]

    def _is_next(self, request: WaitingRequest, now: float) -> bool:
        """Return whether all earlier requests wait only for the rate limits of another model.

        True for a request whose run has changed its model, or if only another model is refused.
        """
        held: set[str] = set()
        of_others = {Cause.QUOTA, Cause.CLOSED, Cause.PROBE} if request.has_changed_model else {Cause.QUOTA}
        for other in self._waiting:
            if other is request:
                break
            if other.model in held:
                continue
            obstacle = None if other.model == request.model else self._obstacle_of(other, now)
            if obstacle is None or obstacle.cause not in of_others:
                return False
            held.add(other.model)
        return True

    def _obstacle_of(self, request: WaitingRequest, now: float) -> Obstacle | None:
        return self.state.obstacle(now, request.model, request.cost, has_changed_model=request.has_changed_model)

    def _wake_first(self) -> None:
        """Make the first request of each model check whether it may begin."""
        woken: set[str] = set()
        for request in self._waiting:
            if request.model not in woken:
                request.wake()
                if not request.is_lost:
                    woken.add(request.model)
                    if len(woken) == len(self._models):
                        break

    def _wake_all(self) -> None:
        for request in self._waiting:
            request.wake()

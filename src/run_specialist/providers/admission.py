"""Admit requests: the one wait before a request is sent, shared by all runs of the process.

Few requests start per iteration of the event loop, and an endpoint and key accept a limited number, fewer after
refusals.

A request counts as running only while it is sent and answered, not while its run executes tools or waits for others.
"""

import asyncio
import hashlib
import math
import os
import threading
import time
from collections import deque
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, NamedTuple, Self

from run_specialist.errors import Unavailable, UsageError
from run_specialist.providers.base import Queueing, Request
from run_specialist.providers.errors import Endpoint, Fault, fault_of, number_set
from run_specialist.providers.knowledge import InformedProvider
from run_specialist.record.events import Waiting

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic
    from openai import AsyncOpenAI

VARIABLE = "SPECIALIST_REQUESTS_AT_ONCE"
"""Environment variable with the maximum number of concurrent requests, if the caller gives none."""
# HTTP statuses for too many requests.
_OVERLOADED = frozenset({429, 503, 529})
MINUTE = 60.0
"""Time without a refusal after which one more request is allowed; a longer `retry-after` ends with a probe [s]."""
GENEROUS = 20
"""Minimum that the first refusal halves, because a few concurrent requests are hardly its cause."""
LONGEST_CLOSING = 3600.0
"""Maximum time for which a model stays closed, whatever the API has requested [s]."""
# Time between two probes whether the API accepts requests again [s].
_PROBE_SPACING = 10.0
PER_TURN = 2
"""Number of requests that may start per iteration of an event loop."""
MOST_GATES = 256
"""Number of gates above which unused ones are dropped."""
# Shorter waits are not reported [s].
_NOTICE_AFTER = 1.0
# A waiting request looks again after so long, in case an event loop ended without ending its requests [s].
_LONGEST_SLEEP = 10.0
_SALT = os.urandom(16)


def ceiling(given: int | None) -> int | None:
    """Return the number given by the caller, otherwise by the environment; None = any number.

    Raises UsageError if it is not an integer of at least 1.
    """
    if given is not None:
        if type(given) is not int or given < 1:
            raise UsageError(f"requests_at_once: must be an integer of at least 1, got {given!r}")
        return given
    return number_set(VARIABLE, "an integer", 1)


async def sleep_unless_woken(future: asyncio.Future[None], seconds: float) -> None:
    """Sleep until a future is done, or for at most this many seconds."""
    await asyncio.wait([future], timeout=seconds)


class Pace:
    """The FIFO queue of requests that wait to start in one event loop, so that responses are processed in between.

    Otherwise a thousand concurrent children would all have a request in progress: a thousand open connections, and ten
    times as much memory for the garbage collector to scan. An idle event loop delays no request.
    """

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._left = PER_TURN
        self._counts = False

    def turn(self, loop: asyncio.AbstractEventLoop) -> asyncio.Future[None] | None:
        """Return a future that is done once one more request may start; None if it may start immediately."""
        if not self._counts:
            self._counts = True
            loop.call_soon(self._next_turn, loop)
        if self._left:
            self._left -= 1
            return None
        future = loop.create_future()
        self._waiting.append(future)
        return future

    def _next_turn(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start the next requests; stop counting after an iteration in which none started."""
        self._counts, self._left = self._left < PER_TURN, PER_TURN
        if self._counts:
            loop.call_soon(self._next_turn, loop)
        while self._left and self._waiting:
            future = self._waiting.popleft()
            # Skip cancelled requests.
            if not future.done():
                future.set_result(None)
                self._left -= 1


class _Running(threading.local):
    """The event loop that a thread runs, and its Pace; another loop replaces both, so that an ended one is freed."""

    loop: asyncio.AbstractEventLoop | None = None
    pace = Pace()


_running = _Running()


def pace_of(loop: asyncio.AbstractEventLoop) -> Pace:
    """Return the Pace of the running event loop, shared by all its requests."""
    if _running.loop is not loop:
        _running.loop, _running.pace = loop, Pace()
    return _running.pace


@dataclass(slots=True)
class Closing:
    """The time for which the API has requested that nothing is sent to a model."""

    refusal: Fault
    """The newest reply that requested it."""
    until: float = 0.0
    needs_probe: bool = False
    """Whether only one request at a time is sent, because none was accepted since the closing."""
    probe: "GatedRequest | None" = None
    """The newest request that was sent to find out; None = the next one may begin."""


class Obstacle(NamedTuple):
    """The reason why a request has to wait."""

    reason: str
    """The reason for the user, in one line."""
    until: float | None = None
    """Time of the next check [s]; None = when another request ends."""
    refusal: Fault | None = None
    """The refusal that the request would meet; waiting for its end counts against the patience of the run."""
    is_probed: bool = False
    """Whether that time is over and another request goes first as a probe."""


class Gate:
    """Decides when the requests with one address and key may begin; safe to use from several event loops.

    Inspired by the adaptive connections of inspect-ai, which start with 20 requests, shrink less and grow faster:
    https://inspect.aisi.org.uk/models-concurrency.html
    """

    clock = staticmethod(time.monotonic)
    sleep = staticmethod(sleep_unless_woken)

    def __init__(self) -> None:
        self.under_way: set[GatedRequest] = set()
        """Requests that have begun."""
        self.most: int | None = None
        """Maximum number of them at the last refusal, plus one for each minute after it; None = any number."""
        self.closings: dict[str, Closing] = {}
        """By model, since APIs limit the requests to each model."""
        self._cut_at = 0.0
        self._quiet_since = -math.inf
        # The waiting requests, in the order of their arrival.
        self._queue: dict[GatedRequest, None] = {}
        self._lock = threading.Lock()

    @property
    def waiting(self) -> int:
        """Number of requests that wait."""
        return len(self._queue)

    @property
    def is_idle(self) -> bool:
        """True if no request runs or waits, and no refusal still applies."""
        return not (self.under_way or self._queue) and self.clock() >= self._quiet_since + LONGEST_CLOSING

    def limit(self) -> int | None:
        """Return the maximum number of running requests that the API accepts; None = any number."""
        return None if self.most is None else self.most + max(int((self.clock() - self._quiet_since) // MINUTE), 0)

    def enter(self, request: "GatedRequest") -> Obstacle | None:
        """Begin a request if possible; otherwise let it wait, and return the obstacle."""
        with self._lock:
            if self._queue or self.closings or self.most is not None or request.ceiling is not None:
                if obstacle := self._closed(request.model) or self._full(request) or self._overtaken(request):
                    self._queue.setdefault(request)
                    return obstacle
                self._queue.pop(request, None)
            request.begun_at = self.clock()
            self.under_way.add(request)
            if (closing := self.closings.get(request.model)) and closing.needs_probe:
                closing.probe = request
            return None

    def _closed(self, model: str) -> Obstacle | None:
        closing = self.closings.get(model)
        if closing is None:
            return None
        if self.clock() < closing.until:
            return Obstacle(closing.refusal.reason, closing.until, closing.refusal)
        next_probe = closing.probe.begun_at + _PROBE_SPACING if closing.needs_probe and closing.probe else 0.0
        if self.clock() < next_probe:
            return Obstacle(closing.refusal.reason, next_probe, closing.refusal, is_probed=True)
        return None

    def _full(self, request: "GatedRequest") -> Obstacle | None:
        most, given, running = self.limit(), request.ceiling, len(self.under_way)
        if given is not None and running >= given and (most is None or given < most):
            return Obstacle(f"at most {given} request{'s' * (given > 1)} at once (requests_at_once)")
        if most is None or running < most:
            return None
        reason = f"at most {most} request{'s' * (most > 1)} at once, because the API refused more"
        return Obstacle(reason, self.clock() + MINUTE - (self.clock() - self._quiet_since) % MINUTE)

    def _overtaken(self, request: "GatedRequest") -> Obstacle | None:
        # Requests to a closed model hold up no other ones.
        closed = {model for model in self.closings if self._closed(model)}
        first = next((one for one in self._queue if one is request or one.model not in closed), request)
        return None if first is request else Obstacle("other requests come first")

    def leave_queue(self, request: "GatedRequest") -> None:
        """Remove a request that has begun or was abandoned from the queue, and make the next one check."""
        with self._lock:
            self._queue.pop(request, None)
            self._wake()

    def accepted(self, request: "GatedRequest") -> None:
        """Register that the API replies to a request."""
        closing = self.closings.get(request.model)
        if closing is not None and closing.needs_probe and closing.probe is request:
            with self._lock:
                closing.needs_probe, closing.probe = False, None
                self._wake()

    def end(self, request: "GatedRequest", refusal: Fault | None = None) -> None:
        """Register the end of a request.

        refusal: None unless the API refused it because of too many requests.
        """
        with self._lock:
            if request not in self.under_way:
                return
            closing = self.closings.get(request.model)
            until = closing.until if closing else 0.0
            if refusal is not None:
                closing = self._refused(request, refusal)
            elif closing is not None and closing.probe is request:
                # A probe that was neither accepted nor refused proves nothing; the next one may begin immediately.
                closing.probe = None
            self.under_way.discard(request)
            # A longer closing may exceed the patience of each request.
            self._wake(every=closing is not None and closing.until > until)

    def _refused(self, request: "GatedRequest", refusal: Fault) -> Closing | None:
        now, most = self.clock(), self.limit()
        if most is not None and request.begun_at <= self._cut_at:
            # It began before the limit was last halved.
            self.most = most
        else:
            self.most = max((max(len(self.under_way), GENEROUS) if most is None else most) // 2, 1)
            self._cut_at = now
        self._quiet_since = now
        wait = min(refusal.wait or 0, LONGEST_CLOSING)
        if wait <= 0 or (wait <= MINUTE and refusal.status != HTTPStatus.TOO_MANY_REQUESTS):
            return self.closings.get(request.model)
        closing = self.closings.setdefault(request.model, Closing(refusal))
        closing.until = max(closing.until, now + wait)
        closing.needs_probe = closing.needs_probe or wait > MINUTE
        closing.refusal = refusal
        return closing

    def _wake(self, *, every: bool = False) -> None:
        """Make requests check whether they may begin: the first one of each model, or every one."""
        woken: set[str] = set()
        for request in self._queue:
            if every or request.model not in woken:
                request.wake()
            if not request.is_lost:
                woken.add(request.model)

    def sweep(self) -> None:
        """End the requests of event loops that were closed without ending them."""
        for request in [one for one in (*self.under_way, *self._queue) if one.is_lost]:
            self.end(request)
            self.leave_queue(request)


class Gates:
    """The gates of this process, by a digest of base URL and key."""

    def __init__(self) -> None:
        self._gates: dict[bytes, Gate] = {}
        self._lock = threading.Lock()

    def of(self, client: "AsyncAnthropic | AsyncOpenAI") -> Gate:
        """Return the gate of a client's endpoint and key."""
        keys = [getattr(client, name, None) for name in ("api_key", "auth_token")]
        told = repr((str(client.base_url).rstrip("/"), keys)).encode("utf-8", "surrogatepass")
        # It distinguishes gates, but cannot be compared with the digest of a key from elsewhere.
        digest = hashlib.blake2b(told, key=_SALT, digest_size=16).digest()
        with self._lock:
            found = self._gates.get(digest)
            if found is None:
                if len(self._gates) >= MOST_GATES:
                    self._gates = {key: gate for key, gate in self._gates.items() if not gate.is_idle}
                found = self._gates[digest] = Gate()
            return found

    @property
    def waiting(self) -> int:
        """Number of requests that wait at any of the gates."""
        with self._lock:
            return sum(gate.waiting for gate in self._gates.values())

    def clear(self) -> None:
        """Drop all gates; running requests end at their own gate."""
        with self._lock:
            self._gates.clear()


GATES = Gates()


class GatedRequest:
    """One request at its gate, a context manager: entered once the request may begin, left when it has ended."""

    __slots__ = ("_endpoint", "_future", "_gate", "_loop", "_provider", "_queueing", "begun_at", "ceiling", "model")

    def __init__(self, gate: Gate, provider: InformedProvider, endpoint: Endpoint, request: Request) -> None:
        """Describe the request, whose body should be built only once it has begun; nothing happens yet."""
        self._gate, self._provider, self._endpoint = gate, provider, endpoint
        self._queueing = request.queueing or Queueing()
        self.model = provider.model
        self.ceiling = provider.requests_at_once
        """Maximum number of running requests at the gate when this one begins; None = any number."""
        self.begun_at = 0.0
        """Set by the gate once the request has begun [s]."""
        self._loop = asyncio.get_running_loop()
        self._future: asyncio.Future[None] | None = None

    async def __aenter__(self) -> Self:
        """Wait until the request may begin.

        Raises Unavailable if its model is closed for longer than the request may wait, or its run is to stop.
        """
        try:
            turn = pace_of(self._loop).turn(self._loop)
            if turn is not None:
                await turn
            if self._gate.enter(self) is not None:
                stopping = self._queueing.stopping
                with nullcontext() if stopping is None else stopping.notifying(self.wake):
                    await self._wait()
        except BaseException:
            self._gate.end(self)
            raise
        return self

    async def __aexit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        """End the request, and remember if it was refused."""
        refusal = None
        try:
            refusal = self._refusal(error) if isinstance(error, Exception) else None
        finally:
            self._gate.end(self, refusal)

    def _refusal(self, error: Exception) -> Fault | None:
        """Return what an error says if it reports too many requests; otherwise None."""
        if not hasattr(error, "body"):  # not an error of an SDK about a reply
            return None
        fault = fault_of(error, self._endpoint, self._provider.client)
        # Waiting does not restore an exhausted quota, unless the API says how long to wait.
        if fault.status not in _OVERLOADED or (not fault.may_pass and (fault.wait or 0) <= MINUTE):
            return None
        return fault

    def accepted(self) -> None:
        """Register a reply that is not an error."""
        if self._gate.closings:
            self._gate.accepted(self)

    @property
    def is_lost(self) -> bool:
        """True if its event loop was closed."""
        return self._loop.is_closed()

    def wake(self) -> None:
        """Make the request check whether it may begin; called from any thread."""
        if self._future is not None:
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(_resolve, self._future)

    async def _wait(self) -> None:
        gate, queueing = self._gate, self._queueing
        since, reason = gate.clock(), ""
        try:
            # From here on a change wakes this request.
            self._future = self._loop.create_future()
            while (obstacle := gate.enter(self)) is not None:
                now = gate.clock()
                if queueing.stopping is not None and queueing.stopping.is_requested:
                    raise Unavailable("the run was stopped while the request waited to begin")
                self._check_patience(obstacle, now)
                if not reason and now - since >= _NOTICE_AFTER:
                    reason = obstacle.reason
                    is_closed = obstacle.refusal is not None and not obstacle.is_probed
                    seconds = round(max((obstacle.until or now) - now, 0), 3) if is_closed else None
                    queueing.notify(Waiting("started", seconds, reason))
                end = min(
                    now + _LONGEST_SLEEP,
                    math.inf if obstacle.until is None else obstacle.until,
                    math.inf if reason else since + _NOTICE_AFTER,
                    math.inf if queueing.closed_since is None else queueing.ends_at,
                )
                await gate.sleep(self._future, max(end - now, 0.001))
                if not self._future.done():
                    gate.sweep()
                self._future = self._loop.create_future()
        finally:
            self._future = None
            gate.leave_queue(self)
        if reason:
            queueing.notify(Waiting("finished", round(gate.clock() - since, 3), reason))

    def _check_patience(self, obstacle: Obstacle, now: float) -> None:
        """Raise Unavailable if the request would be refused for longer than it may wait."""
        queueing, refusal = self._queueing, obstacle.refusal
        if refusal is None:
            queueing.closed_since = None
            return
        if queueing.closed_since is None:
            queueing.closed_since = now
        if not obstacle.is_probed and obstacle.until is not None and obstacle.until > queueing.ends_at:
            left = obstacle.until - now
            advice = f"try again in {left:.0f} seconds, as the API requests"
            raise Unavailable(obstacle.reason, advice, status=refusal.status, wait=left)
        if now >= queueing.ends_at:
            raise Unavailable(obstacle.reason, "try again later", status=refusal.status)


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)

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
from collections import Counter, OrderedDict, deque
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, Self
from weakref import WeakKeyDictionary

from run_specialist.errors import Unavailable, UsageError
from run_specialist.providers.base import Queueing, Request
from run_specialist.providers.errors import Endpoint, fault_of
from run_specialist.providers.knowledge import InformedProvider
from run_specialist.record.events import Waiting

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic
    from openai import AsyncOpenAI


# Decide when a request to an endpoint may begin: pure values, and transitions on time, replies and refusals.
#
# Times are seconds of any one clock. Inspired by the adaptive connections of inspect-ai, which start with 20 requests,
# shrink less and grow faster: https://inspect.aisi.org.uk/models-concurrency.html

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
        # It may pass a closed gate if only other models were refused.
        is_free = has_changed_model and model not in self.closed_for
        if now < self.closed_until and not is_free:
            return Obstacle(Cause.CLOSED, reason, self.closed_until)
        if not is_free and self.needs_probe and self.probed_at is not None and now < self.probed_at + PROBE_SPACING:
            return Obstacle(Cause.PROBE, reason, self.probed_at + PROBE_SPACING)
        if self.most is None and ceiling is None:
            return None
        most = self.limit(now)
        at_once = int(min(math.inf if most is None else most, math.inf if ceiling is None else ceiling))
        if self.under_way < at_once:
            return None
        requests = f"at most {at_once} request{'s' * (at_once > 1)} at once"
        if most != at_once:
            return Obstacle(Cause.AT_ONCE, f"{requests} (requests_at_once)")
        grows_at = now + MINUTE - (now - self.quiet_since) % MINUTE
        return Obstacle(Cause.AT_ONCE, f"{requests}, because the API refused more", grows_at)

    def begin(self, now: float, model: str, *, has_changed_model: bool = False) -> tuple["GateState", InFlightRequest]:
        """Return the state after a request has begun, and the request; the arguments are those of `obstacle`."""
        is_probe = self.needs_probe and not (has_changed_model and model not in self.closed_for)
        state = self._replace(under_way=self.under_way + 1, probed_at=now if is_probe else self.probed_at)
        return state, InFlightRequest(now, model, is_probe)

    def accepted(self, begun: InFlightRequest) -> "GateState":
        """Return the state after the API began to reply to a request."""
        return self._replace(needs_probe=False, probed_at=None) if begun.is_probe and self.needs_probe else self

    def refused(self, now: float, begun: InFlightRequest, refusal: RateLimitRefusal) -> "GateState":
        """Return the state after the API refused a running request."""
        most = self.limit(now)
        if most is not None and begun.at <= self.cut_at:
            # It began before the limit was last halved.
            state = self._replace(most=most, quiet_since=now)
        else:
            most = max(self.under_way, GENEROUS) if most is None else most
            state = self._replace(most=max(most // 2, 1), cut_at=now, quiet_since=now)
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

    def ended(self, begun: InFlightRequest, *, was_refused: bool = False) -> "GateState":
        """Return the state after a request has ended, in any way."""
        # A probe that was neither accepted nor refused proves nothing; the next one may begin immediately.
        is_void = begun.is_probe and not was_refused and self.needs_probe and self.probed_at == begun.at
        return self._replace(under_way=max(self.under_way - 1, 0), probed_at=None if is_void else self.probed_at)


VARIABLE = "SPECIALIST_REQUESTS_AT_ONCE"
"""Environment variable with the maximum number of concurrent requests, if the caller gives none."""
MOST_GATES = 256
"""Number of gates above which unused ones are dropped."""
NOTICE_AFTER = 1.0
"""Shorter waits are not reported [s]."""
LONGEST_SLEEP = 10.0
"""A waiting request looks again after so long, in case an event loop ended without ending its requests [s]."""
_MOST_DIGITS = 9
_SALT = os.urandom(16)
_IN_ORDER = Obstacle(Cause.ORDER, "other requests come first")


def ceiling(given: int | None) -> int | None:
    """Return the number given by the caller, otherwise by the environment; None = any number.

    Raises UsageError if it is not an integer of at least 1.
    """
    if given is not None:
        if type(given) is not int or given < 1:
            raise UsageError(f"requests_at_once: must be an integer of at least 1, got {given!r}")
        return given
    text = os.environ.get(VARIABLE, "").strip()
    if not text:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS and int(text) >= 1):
        raise UsageError(f"{VARIABLE}: must be an integer of at least 1, got {text[:40]!r}")
    return int(text)


async def sleep_unless_woken(future: asyncio.Future[None], seconds: float) -> None:
    """Sleep until a future is done, or for at most this many seconds."""
    await asyncio.wait([future], timeout=seconds)


# Limit how many requests start per iteration of the event loop, so that responses are processed in between.
#
# Otherwise a thousand concurrent children would all have a request in progress: a thousand open connections, and ten
# times as much memory for the garbage collector to scan. An idle event loop delays no request.

PER_TURN = 2
"""Number of requests that may start per loop iteration."""


class Pace:
    """The FIFO queue of requests that wait to start in one event loop."""

    # Only waiting futures refer to the loop, so that the WeakKeyDictionary can drop the entries of dead loops.
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


_paces: WeakKeyDictionary[asyncio.AbstractEventLoop, Pace] = WeakKeyDictionary()


def pace_of(loop: asyncio.AbstractEventLoop) -> Pace:
    """Return the Pace of an event loop, shared by all its requests."""
    found = _paces.get(loop)
    if found is None:
        # Waiting futures keep a closed loop alive. `keyrefs` returns a copy, since other threads may add entries.
        for reference in _paces.keyrefs():
            other = reference()
            if other is not None and other.is_closed():
                _paces.pop(other, None)
        found = _paces[loop] = Pace()
    return found


class Gate:
    """The state of a gate, and the requests that wait there; safe to use from several event loops."""

    clock = staticmethod(time.monotonic)
    sleep = staticmethod(sleep_unless_woken)

    def __init__(self) -> None:
        self.state = GateState()
        """The current state; replaced at each change, so other threads may read it."""
        self._lock = threading.Lock()
        self._under_way: set[GatedRequest] = set()
        self._waiting: OrderedDict[GatedRequest, None] = OrderedDict()
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

    def enter(self, request: "GatedRequest") -> Obstacle | None:
        """Begin a request if possible; otherwise let it wait, and return the obstacle."""
        with self._lock:
            if request not in self._waiting:
                if request.ceiling is not None:
                    self._ceilings[request.ceiling] += 1
                if self._waiting:
                    self._queue(request)
            now, changed = self.clock(), request.has_changed_model
            most = min(self._ceilings) if self._ceilings else None
            obstacle = self.state.obstacle(now, request.model, most, has_changed_model=changed)
            if obstacle is None and self._waiting and not self._is_next(request, now):
                obstacle = _IN_ORDER
            if obstacle is None:
                self.state, request.begun = self.state.begin(now, request.model, has_changed_model=changed)
                self._under_way.add(request)
                if request in self._waiting:
                    self._unqueue(request)
            else:
                self._queue(request)
            return obstacle

    def _queue(self, request: "GatedRequest") -> None:
        if request not in self._waiting:
            self._waiting[request] = None
            self._models[request.model] += 1

    def _unqueue(self, request: "GatedRequest") -> None:
        del self._waiting[request]
        self._models[request.model] -= 1
        if not self._models[request.model]:
            del self._models[request.model]

    def leave_queue(self, request: "GatedRequest") -> None:
        """Remove a request that has begun or was abandoned from the queue, and make the next one check."""
        with self._lock:
            if request in self._waiting:
                self._unqueue(request)
            if request.begun is None:
                self._forget_ceiling(request)
            self._wake()

    def accepted(self, request: "GatedRequest") -> None:
        """Register that the API replies to a request."""
        with self._lock:
            before = self.state
            if request.begun is not None:
                self.state = before.accepted(request.begun)
            if self.state is not before:
                self._wake()

    def end(self, request: "GatedRequest", refusal: RateLimitRefusal | None = None) -> None:
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
            if self._waiting:
                # A longer closing may exceed the patience of each request.
                self._wake(every=self.state.closed_until > before.closed_until)

    def sweep(self) -> None:
        """End the requests of event loops that were closed without ending them."""
        for request in [request for request in tuple(self._under_way) if request.is_lost]:
            self.end(request)
        for request in [request for request in tuple(self._waiting) if request.is_lost]:
            self.leave_queue(request)

    def _forget_ceiling(self, request: "GatedRequest") -> None:
        if request.ceiling is not None:
            self._ceilings[request.ceiling] -= 1
            if self._ceilings[request.ceiling] <= 0:
                del self._ceilings[request.ceiling]

    def _is_next(self, request: "GatedRequest", now: float) -> bool:
        """Return whether no earlier request waits, or a run that has changed its model passes refused requests."""
        held: set[str] = set()
        for other in self._waiting:
            if other is request:
                break
            if other.model in held:
                continue
            if not request.has_changed_model or other.model == request.model:
                return False
            obstacle = self.state.obstacle(now, other.model, has_changed_model=other.has_changed_model)
            if obstacle is None or not obstacle.is_refusal:
                return False
            held.add(other.model)
        return True

    def _wake(self, *, every: bool = False) -> None:
        """Make requests check whether they may begin: the first one of each model, or every one."""
        woken: set[str] = set()
        for request in self._waiting:
            if every or request.model not in woken:
                request.wake()
                if not request.is_lost:
                    woken.add(request.model)
                    if len(woken) == len(self._models) and not every:
                        break


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

    __slots__ = (
        "_endpoint",
        "_future",
        "_gate",
        "_loop",
        "_provider",
        "_queueing",
        "begun",
        "ceiling",
        "has_changed_model",
        "model",
    )

    def __init__(self, gate: Gate, provider: InformedProvider, endpoint: Endpoint, request: Request) -> None:
        """Describe the request, whose body should be built only once it has begun; nothing happens yet."""
        self._provider, self._endpoint = provider, endpoint
        self._gate = gate
        self._queueing = request.queueing or Queueing()
        self.model = provider.model
        self.ceiling = provider.requests_at_once
        """Maximum number of running requests at the gate while this one waits or runs; None = any number."""
        self.has_changed_model = self._queueing.has_changed_model
        """Whether its run has used another model before."""
        self.begun: InFlightRequest | None = None
        """Set by the gate once the request has begun."""
        self._loop = asyncio.get_running_loop()
        self._future: asyncio.Future[None] | None = None

    async def __aenter__(self) -> Self:
        """Wait until the request may begin.

        Raises Unavailable if the gate is closed for longer than the request may wait, or its run is to stop.
        """
        try:
            turn = pace_of(self._loop).turn(self._loop)
            if turn is not None:
                await turn
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
            refusal = self._refusal(error) if isinstance(error, Exception) else None
        finally:
            self._gate.end(self, refusal)

    def _refusal(self, error: Exception) -> RateLimitRefusal | None:
        """Return the refusal in an error if it reports too many requests; otherwise None."""
        if not hasattr(error, "body"):
            # Neither of the SDKs' errors about a reply: a broken connection, an unreadable reply.
            return None
        fault = fault_of(error, self._endpoint, self._provider.client)
        # Waiting does not restore an exhausted quota, unless the API says how long to wait.
        if fault.status not in OVERLOADED or (not fault.may_pass and (fault.wait or 0) <= MINUTE):
            return None
        return RateLimitRefusal(fault.status, fault.wait, fault.reason)

    def accepted(self) -> None:
        """Register a reply that is not an error."""
        if self.begun is not None and self.begun.is_probe:
            self._gate.accepted(self)

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
                    ends = [
                        now + LONGEST_SLEEP,
                        *([] if obstacle.until is None else [obstacle.until]),
                        *([since + NOTICE_AFTER] if reason is None else []),
                        *([] if queueing.closed_since is None else [queueing.ends_at]),
                    ]
                    await gate.sleep(self._future, max(min(ends) - now, 0.001))
                    if not self._future.done():
                        gate.sweep()
                    obstacle = gate.enter(self)
        finally:
            self._future = None
            gate.leave_queue(self)
        if reason is not None:
            queueing.notify(Waiting("finished", round(gate.clock() - since, 3), reason))

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

"""Serve MCP over HTTP: address, access token, limits, and the guard in front of the server."""

import asyncio
import ipaddress
import logging
import os
import re
import secrets
import socket
import stat
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from http import HTTPStatus
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import h11
import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.transport_security import TransportSecuritySettings
from starlette.datastructures import Headers
from starlette.requests import HTTPConnection, Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from run_specialist.errors import UsageError

# An HTTP connection with timeouts for the head of a request, its body, and reading the response.
#
# uvicorn only has a keep-alive timeout between requests, which restarts with each byte.

READ_SIZE = 16_384
"""Maximum bytes parsed per event loop iteration, so that many tiny chunks cannot block the loop [bytes]."""


class AwaitedPart(Enum):
    """The part of a request that the client has not sent yet."""

    HEAD = auto()
    BODY = auto()
    CLOSE = auto()
    """None: the response was sent, and the client should close the connection."""


@dataclass(frozen=True)
class TimeLimits:
    """Timeouts for each part of an exchange [s].

    Each is a total, which received bytes do not extend. Tool calls and event streams have no timeout.
    """

    head: float = 10.0
    """For the request line and all headers, from the connection or the last response on."""
    body: float = 60.0
    """For the body, from the end of the headers on."""
    unread: float = 60.0
    """For reading the response data that was sent."""
    close: float = 2.0
    """For closing the connection after a response that was sent before the end of the request."""

    def of(self, awaited: AwaitedPart) -> float:
        """Return the timeout for a part of a request [s]."""
        return {AwaitedPart.HEAD: self.head, AwaitedPart.BODY: self.body, AwaitedPart.CLOSE: self.close}[awaited]


Watcher = Callable[["HttpConnection", AwaitedPart | None], None]
"""Called when a connection starts to wait for its client, and with None when it stops waiting."""


class HttpConnection(H11Protocol, asyncio.BufferedProtocol):
    """Parses requests with h11, and closes the connection when a timeout expires."""

    def __init__(self, limits: TimeLimits, watcher: Watcher, **options: Any) -> None:  # noqa: ANN401 - uvicorn's options
        super().__init__(**options)
        self._limits = limits
        self._watcher = watcher
        self._buffer = bytearray(READ_SIZE)
        self._socket: asyncio.Transport
        self._awaited: AwaitedPart | None = None
        """The part that the client has not sent yet; None while the request is being answered."""
        self._deadline: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None

    def drop(self) -> None:
        """Close the connection immediately, without finishing a response."""
        self._socket.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start to wait for a request."""
        self._socket = cast("asyncio.Transport", transport)
        # With a limit of 0, `pause_writing` is called as soon as data stays in the write buffer.
        self._socket.set_write_buffer_limits(high=0)
        super().connection_made(cast("asyncio.Transport", _LingeringTransport(self._socket, self._linger)))
        self._update()

    def get_buffer(self, sizehint: int) -> bytearray:  # noqa: ARG002 - the protocol's signature
        """Return the read buffer."""
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Parse the received bytes; discard them if the final response was already sent."""
        if self._awaited is AwaitedPart.CLOSE:
            return
        self.data_received(bytes(memoryview(self._buffer)[:nbytes]))
        self._update()

    def on_response_complete(self) -> None:
        """Continue with the next request, or close if the client is still sending the answered one."""
        # Checked first: afterwards this could be the state of a pipelined request.
        if self.conn.their_state is h11.SEND_BODY:
            self.transport.close()
        super().on_response_complete()
        self._update()

    def pause_writing(self) -> None:
        """Start the timeout for reading the response."""
        super().pause_writing()
        self._unread = self._unread or self.loop.call_later(self._limits.unread, self.drop)

    def resume_writing(self) -> None:
        """Cancel the timeout for reading the response."""
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None
        super().resume_writing()
        self._update()

    def timeout_keep_alive_handler(self) -> None:
        """Close an idle connection; a connection whose last response is still being read is not idle."""
        if not self.flow.write_paused:
            super().timeout_keep_alive_handler()

    def shutdown(self) -> None:
        """Close the connection after finishing the current response."""
        if self._awaited is not None:
            self.drop()
        elif self._is_answering:
            self.cycle.keep_alive = False
        else:
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel all timers."""
        self.resume_writing()
        self._wait_for(None)
        super().connection_lost(exc)

    @property
    def _is_answering(self) -> bool:
        cycle = cast("RequestResponseCycle | None", self.cycle)
        return cycle is not None and not cycle.response_complete

    def _update(self) -> None:
        if not self.transport.is_closing():
            # No timeout for the next request while the client is still reading the response.
            parts = {} if self.flow.write_paused else {h11.IDLE: AwaitedPart.HEAD, h11.SEND_BODY: AwaitedPart.BODY}
            self._wait_for(parts.get(self.conn.their_state))

    def _wait_for(self, awaited: AwaitedPart | None) -> None:
        if awaited is self._awaited:
            return
        self._awaited = awaited
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        if awaited is not None:
            self._deadline = self.loop.call_later(self._limits.of(awaited), self._expire)
        self._watcher(self, awaited)

    def _expire(self) -> None:
        match self._awaited:
            case AwaitedPart.HEAD if self.conn.trailing_data[0]:
                self._answer_timeout(f"the headers of a request may take {self._limits.head:g} seconds")
            case AwaitedPart.BODY if self._is_answering and not self.cycle.response_started:
                # Report a disconnect to the application, so that it does not send a second response.
                self.cycle.disconnected = True
                self.cycle.message_event.set()
                self._answer_timeout(f"the body of a request may take {self._limits.body:g} seconds")
            case _:
                self.drop()

    def _answer_timeout(self, text: str) -> None:
        status, body = HTTPStatus.REQUEST_TIMEOUT, f"{text}; this one took longer\n".encode()
        headers = [
            ("content-type", "text/plain; charset=utf-8"),
            ("content-length", str(len(body))),
            ("connection", "close"),
        ]
        response = h11.Response(status_code=status.value, headers=headers, reason=status.phrase)
        for event in (response, h11.Data(data=body), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def _linger(self) -> bool:
        """If the client is still sending, keep the connection open for a short time; return whether it is sending.

        Closing a socket with unread data sends a TCP reset, and the client might never receive the response.
        """
        if self.conn.their_state not in {h11.SEND_BODY, h11.ERROR} and not self.conn.trailing_data[0]:
            return False
        self._unset_keepalive_if_required()
        self._wait_for(AwaitedPart.CLOSE)
        return True


class _LingeringTransport:
    """A transport that lets the client read the last response before the connection is closed."""

    def __init__(self, transport: asyncio.Transport, linger: Callable[[], bool]) -> None:
        self._transport = transport
        self._linger = linger
        self._is_closing = False

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - delegates to the transport
        return getattr(self._transport, name)

    def is_closing(self) -> bool:
        return self._is_closing or self._transport.is_closing()

    def close(self) -> None:
        if self.is_closing():
            return
        self._is_closing = True
        if self._linger():
            self._transport.write_eof()
            self._transport.resume_reading()
        else:
            self._transport.close()


RETRY_DELAY = 0.05
"""Delay between attempts to accept while no connection can be closed or no file descriptor is free [s]."""


class Acceptor:
    """Accepts the connections of one listening socket.

    asyncio's server accepts all pending connections before it calls the protocol, and logs a traceback for each
    connection beyond the limit of open file descriptors.
    """

    def __init__(self, listening: socket.socket, most: int, closed: Callable[[], None]) -> None:
        """Create an acceptor.

        most: maximum number of open connections.
        closed: called for each connection that is closed in favor of a new one.
        """
        listening.setblocking(False)
        self._listening = listening
        self._most = most
        self._closed = closed
        # Ordered by the time when waiting began. A body is awaited only from an authorized client.
        self._waiting: dict[AwaitedPart, dict[HttpConnection, None]] = {awaited: {} for awaited in AwaitedPart}

    def watch(self, connection: HttpConnection, awaited: AwaitedPart | None) -> None:
        """Record what a connection waits for; None if it is being answered, or closed."""
        for waiting in self._waiting.values():
            waiting.pop(connection, None)
        if awaited is not None:
            self._waiting[awaited][connection] = None

    async def accept(self, connections: Sized, make: Callable[[], HttpConnection]) -> None:
        """Accept until cancelled.

        connections: the open connections; each adds and removes itself.
        """
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, _ = await loop.sock_accept(self._listening)
            except OSError:
                # Usually no file descriptor is free.
                self._close_longest_waiting()
                await asyncio.sleep(RETRY_DELAY)
                continue
            try:
                while len(connections) >= self._most:  # noqa: ASYNC110 - connections close without a notification
                    await asyncio.sleep(0 if self._close_longest_waiting() else RETRY_DELAY)
                await loop.connect_accepted_socket(make, accepted)
            except OSError:
                # The client has already disconnected.
                accepted.close()
            except asyncio.CancelledError:
                accepted.close()
                raise

    def _close_longest_waiting(self) -> bool:
        """Close the connection that has waited longest, preferring those without a complete head.

        Return whether a connection was closed.
        """
        for awaited in (AwaitedPart.CLOSE, AwaitedPart.HEAD, AwaitedPart.BODY):
            for connection in self._waiting[awaited]:
                self.watch(connection, None)
                connection.drop()
                self._closed()
                return True
        return False


INTERVAL = 60.0
"""Minimum time between two reports [s]."""


class Notices:
    """Counts events; reports the first one immediately and further ones at most once per interval."""

    def __init__(self, report: Callable[[int], None], interval: float = INTERVAL) -> None:
        """Set the reporting function.

        report: called with the number of events since the last report.
        interval: minimum time between two reports [s].
        """
        self._report = report
        self._interval = interval
        self._count = 0
        self._timer: asyncio.TimerHandle | None = None

    def add(self) -> None:
        """Count one event; requires a running event loop."""
        self._count += 1
        if self._timer is None:
            self._report_count()

    def close(self) -> None:
        """Report the remaining events, and stop the timer."""
        if self._timer is not None:
            self._timer.cancel()
        if self._count:
            self._report(self._count)

    def _report_count(self) -> None:
        self._timer = None
        if self._count:
            count, self._count = self._count, 0
            self._timer = asyncio.get_running_loop().call_later(self._interval, self._report_count)
            self._report(count)


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


PATH = "/mcp"
LONGEST_BODY = 4 * 1024 * 1024
"""Maximum size of a request body [bytes]."""
QUEUE = 1_024
"""Backlog of the listening socket [connections]."""
PATIENCE = 2
"""Time for pending responses at shutdown [s]."""

_ADDRESS = re.compile(r"(?:(?P<host>\[[^\]]*\]|[^:\[\]]*):)?(?P<port>[0-9]{1,5})")
_HIGHEST_PORT = 65_535


@dataclass(frozen=True)
class Address:
    """A host and port to listen on."""

    host: str
    port: int
    """0 = any free port."""

    def __str__(self) -> str:
        """Return the address as in a URL."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @classmethod
    def parse(cls, text: str) -> "Address":
        """Parse `HOST:PORT`, `[HOST]:PORT` for IPv6, or a port alone, which listens on the loopback interface.

        Raises UsageError for other texts.
        """
        found = _ADDRESS.fullmatch(text.strip())
        if not found or int(found["port"]) > _HIGHEST_PORT:
            raise UsageError(f"--http: expected HOST:PORT, [IPV6]:PORT or a port, got {text!r}")
        return cls((found["host"] or "").strip("[]") or "127.0.0.1", int(found["port"]))


class Http:
    """Serves clients over HTTP."""

    def __init__(
        self,
        address: Address,
        token: str | None,
        say: Callable[[str], None] = print,
        bounds: ServerLimits | None = None,
    ) -> None:
        """Open the listening socket.

        token: the token that clients must send; None accepts all clients on this machine.
        say: prints a message for the user.
        Raises UsageError if the address is unavailable, or reachable from other machines without a token.
        """
        family, place = _resolve(address)
        self.is_private = is_loopback(place[0])
        """True if only this machine can connect."""
        if not (self.is_private or token):
            raise UsageError(
                f"--http {address} is reachable from other machines: set a token with --token or "
                "SPECIALIST_MCP_TOKEN, remove --no-token, or listen on 127.0.0.1"
            )
        try:
            self._socket = socket.create_server(place, family=family, backlog=QUEUE)
        except OSError as error:
            raise UsageError(
                f"--http {address}: {os.strerror(error.errno or 0)}; choose another port, or 0 for any free port"
            ) from None
        port = self._socket.getsockname()[1]
        self.url = f"http://{replace(address, port=port)}{PATH}"
        """The URL for clients."""
        self._guard = Guard(token, LOOPBACK | {address.host.lower()} if self.is_private else None)
        self._bounds = bounds or ServerLimits()
        self._notices = Notices(lambda count: say(self._overload_warning(count)), self._bounds.interval)
        self._web: _Web | None = None

    async def serve(self, server: Server[Any], ready: Callable[[str], None]) -> None:
        """Serve until `stop` is called."""
        # `Guard` checks Host and Origin: the library's check accepts `localhost:evil.example` and rejects `localhost`.
        bounds = self._bounds
        unchecked = TransportSecuritySettings(enable_dns_rebinding_protection=False)
        app = server.streamable_http_app(
            streamable_http_path=PATH,
            max_request_body_size=LONGEST_BODY,
            session_idle_timeout=bounds.idle,
            # `SessionLimit` enforces the limit; at most one new session per connection can exceed it briefly.
            max_sessions=bounds.sessions + bounds.connections,
            transport_security=unchecked,
        )
        guarded = GuardedApp(SessionLimit(app, bounds.sessions), self._guard, bounds.requests, self._notices.add)
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
        # Without a handler, the library would print a traceback for each client that disconnects during its request.
        logging.getLogger("mcp").addHandler(logging.NullHandler())
        config = uvicorn.Config(
            guarded,
            log_config=None,
            access_log=False,
            lifespan="on",
            ws="none",
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=PATIENCE,
        )
        self._web = _Web(config, Acceptor(self._socket, bounds.connections, self._notices.add), bounds.times)
        ready(self.url)
        try:
            await self._web.serve()
        finally:
            self._notices.close()
            self._socket.close()

    def stop(self) -> None:
        """Make `serve` return."""
        if self._web is not None:
            self._web.should_exit = True

    def _overload_warning(self, count: int) -> str:
        connections = f"{count} connection{' was' if count == 1 else 's were'}"
        return f"warning: {connections} closed or refused; the limit is {self._bounds.connections} at the same time"


class _Web(uvicorn.Server):
    """uvicorn with a connection limit and time limits for clients."""

    def __init__(self, config: uvicorn.Config, acceptor: Acceptor, limits: TimeLimits) -> None:
        super().__init__(config)
        self._acceptor = acceptor
        self._limits = limits
        self._accepting: asyncio.Task[None] | None = None

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Install no signal handlers; the command handles signals, because it stops the runs first."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:  # noqa: ARG002 - uvicorn's signature
        """Start to accept connections."""
        await super().startup([])
        self._accepting = asyncio.create_task(self._acceptor.accept(self.server_state.connections, self._connection))

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:  # noqa: ARG002 - uvicorn's signature
        """Stop accepting connections, and finish pending responses."""
        if self._accepting is not None:
            self._accepting.cancel()
        await super().shutdown([])

    def _connection(self) -> HttpConnection:
        return HttpConnection(
            self._limits,
            self._acceptor.watch,
            config=self.config,
            server_state=self.server_state,
            app_state=self.lifespan.state,
        )


def _resolve(address: Address) -> tuple[socket.AddressFamily, tuple[str, int]]:
    try:
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"--http: {address.host}: {reason}") from None
    # Prefer IPv4: `localhost` resolves to both families, and clients try both.
    family, _, _, _, place = min(found, key=lambda one: one[0] != socket.AF_INET)
    return family, (str(place[0]), address.port)


LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_AUTHORITY = re.compile(r"(?:\[[^\[\]@]+\]|[^\[\]:@]+)(?::[0-9]*)?")
_DISCONNECT_CALLBACKS = "run_specialist.disconnect_callbacks"


@dataclass(frozen=True)
class ErrorResponse:
    """The response to a refused request."""

    status: int
    text: str
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Guard:
    """The access rule of a server."""

    token: str | None = field(repr=False)
    """The token that clients must send; None if none is required."""
    hosts: frozenset[str] | None
    """Accepted host names; None accepts any name, for servers that require a token."""

    def refusal(self, host: Iterable[str], origin: Iterable[str], authorization: Iterable[str]) -> ErrorResponse | None:
        """Return the refusal of a request; None if it is accepted.

        Checking Host and Origin prevents cross-site requests and DNS rebinding: a web page can make a browser send
        requests to this machine, also under the page's own host name.

        host, origin, authorization: all values of these headers.
        """
        hosts, origins, sent = [*host], [*origin], [*authorization]
        if len(hosts) != 1 or (name := _host_name(f"//{hosts[0]}")) is None or not self._is_accepted(name):
            return ErrorResponse(421, "the Host header does not name this server")
        if len(origins) > 1 or not all(self._is_own_origin(one, hosts[0]) for one in origins):
            return ErrorResponse(403, "requests from this Origin are not allowed")
        if self.token is not None and not (len(sent) == 1 and _is_token(sent[0], self.token)):
            wrong = ' error="invalid_token"' if sent else ""
            return ErrorResponse(
                401,
                "the header `Authorization: Bearer TOKEN` with the token of this server is required",
                {"WWW-Authenticate": f"Bearer{wrong}"},
            )
        return None

    def _is_accepted(self, name: str) -> bool:
        return self.hosts is None or name in self.hosts or is_loopback(name)

    def _is_own_origin(self, origin: str, host: str) -> bool:
        name = _host_name(origin)
        if name is None:
            return False
        # Only after `_host_name`: some versions of Python raise for a URL without a valid host.
        parts = urlsplit(origin)
        if parts.scheme not in {"http", "https"}:
            return False
        if is_loopback(name):
            return True
        return (name in self.hosts) if self.hosts is not None else parts.netloc.lower() == host.lower()


def is_loopback(name: str) -> bool:
    """Return whether a host name or address always refers to this machine."""
    try:
        return name in LOOPBACK or ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _host_name(url: str) -> str | None:
    """Return the host of a URL in lower case; None without a valid host, or with a path, query or fragment."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return None
    if not _AUTHORITY.fullmatch(parts.netloc) or parts.path or parts.query or parts.fragment:
        return None
    return parts.hostname


def _is_token(sent: str, token: str) -> bool:
    kind, _, given = sent.partition(" ")
    return kind.lower() == "bearer" and secrets.compare_digest(given.strip().encode(), token.encode())


class GuardedApp:
    """ASGI middleware that enforces a guard and a request limit, and reports disconnected clients."""

    def __init__(self, app: ASGIApp, guard: Guard, most: int, refused: Callable[[], None]) -> None:
        """Wrap an application.

        most: maximum number of concurrent requests.
        refused: called for each request beyond this number.
        """
        self._app = app
        self._guard = guard
        self._most = most
        self._refused = refused
        self._answering = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, or refuse it without reading its body."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = HTTPConnection(scope).headers
        refusal = self._guard.refusal(*(headers.getlist(name) for name in ("host", "origin", "authorization")))
        if refusal is None and self._answering >= self._most:
            self._refused()
            refusal = ErrorResponse(
                503, f"{self._most} requests are already being served; try again", {"Retry-After": "1"}
            )
        if refusal is not None:
            # Close the connection, so that a refused client cannot keep it busy.
            closing = refusal.headers | {"Connection": "close"}
            await PlainTextResponse(refusal.text + "\n", refusal.status, closing)(scope, receive, send)
            return
        callbacks: list[Callable[[], None]] = []

        async def watch_disconnect() -> Message:
            message = await receive()
            if message["type"] == "http.disconnect":
                for callback in callbacks:
                    callback()
            return message

        self._answering += 1
        try:
            await self._app({**scope, _DISCONNECT_CALLBACKS: callbacks}, watch_disconnect, send)
        finally:
            self._answering -= 1


def on_disconnect(request: object, callback: Callable[[], None]) -> None:
    """Register a function to call when the client of an HTTP request disconnects, or has received its response."""
    if isinstance(request, Request):
        request.scope[_DISCONNECT_CALLBACKS].append(callback)


HEADER = "mcp-session-id"
_OK, _NOT_FOUND = 200, 404


class SessionLimit:
    """ASGI middleware that tracks the sessions of an MCP application by their header, and ends idle ones by DELETE."""

    def __init__(self, app: ASGIApp, most: int) -> None:
        """Wrap an application.

        most: maximum number of sessions; exceeded only while all sessions have active requests.
        """
        self._app = app
        self._most = most
        self._requests: dict[str, int] = {}
        """Number of active requests by session, least recently used session first."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request; if it starts a session beyond the limit, end an idle one."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = Headers(scope=scope).get(HEADER)
        session = given if given in self._requests else None
        self._count(session, 1)

        async def watch(message: Message) -> None:
            nonlocal session
            if message["type"] == "http.response.start":
                created = Headers(raw=message["headers"]).get(HEADER)
                if given is None and created is not None and message["status"] == _OK:
                    session = created
                    self._requests[created] = 1
                    await self._end_idle(scope)
                elif message["status"] == _NOT_FOUND or (scope["method"] == "DELETE" and message["status"] == _OK):
                    self._requests.pop(session or "", None)
            await send(message)

        try:
            await self._app(scope, receive, watch)
        finally:
            self._count(session, -1)

    def _count(self, session: str | None, more: int) -> None:
        if session is not None and session in self._requests:
            self._requests[session] = self._requests.pop(session) + more

    async def _end_idle(self, scope: Scope) -> None:
        excess = len(self._requests) - self._most
        for session in [one for one, requests in self._requests.items() if not requests][: max(excess, 0)]:
            del self._requests[session]
            headers = [(b"host", b"localhost"), (HEADER.encode(), session.encode())]
            await self._app({**scope, "method": "DELETE", "headers": headers}, _no_body, _ignore)


async def _no_body() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}


async def _ignore(_: Message) -> None:
    """Discard a response message."""


# The generated access token of the HTTP server, stored in a file that only the user can read.
#
# The token stays the same across restarts, because clients store it in their configuration.

FILE = "mcp-token"
"""File name in the user's data directory."""
FORM = re.compile("[!-~]+")
"""Printable ASCII without spaces, because HTTP headers do not carry other characters reliably."""
_LONGEST = 4_096
_BYTES = 32


@dataclass(frozen=True)
class AccessToken:
    """A token and the location of its file."""

    value: str = field(repr=False)
    message: str
    """Message for the user with the location of the token."""


def access_token(folder: Path | None = None) -> AccessToken:
    """Return the user's token; generate it on the first call.

    folder: the folder of the file; None for the user's data directory.
    If the file cannot be written, the token is new at each start.
    Raises UsageError if other users could have read or written the file.
    """
    if folder is None:
        import platformdirs  # noqa: PLC0415 - 20 ms that only this default costs

        folder = platformdirs.user_data_path("run-specialist", appauthor=False)
    path = folder / FILE
    try:
        return _read(path) or _create(path)
    except OSError as error:
        reason = f"{path}: {error.strerror or error}"
        return AccessToken(
            secrets.token_urlsafe(_BYTES), f"the token cannot be stored and changes at each start: {reason}"
        )


def _create(path: Path) -> AccessToken:
    """Generate and store a token; return the stored one if another process was faster."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{FILE}-")
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            if os.name == "posix":
                os.fchmod(file.fileno(), stat.S_IRUSR | stat.S_IWUSR)
            file.write(secrets.token_urlsafe(_BYTES) + "\n")
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):
            # Atomic; a rename would replace the token of a server that has just started.
            os.link(name, path)
    finally:
        Path(name).unlink()
    stored = _read(path)
    if stored is None:
        raise FileNotFoundError(None, "the file was deleted immediately", str(path))
    return stored


def _read(path: Path) -> AccessToken | None:
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except FileNotFoundError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise UsageError(f"{path} is not a regular file; delete it, and the next start generates a new token")
        if os.name == "posix" and (status.st_uid != os.geteuid() or status.st_mode & (stat.S_IRWXG | stat.S_IRWXO)):
            raise UsageError(
                f"{path} belongs to another user, or is accessible to others; delete it, and the next start generates "
                "a new token"
            )
        value = file.read(_LONGEST).decode("ascii", "replace").strip()
    if not FORM.fullmatch(value):
        raise UsageError(f"{path} does not contain a token; delete it, and the next start generates a new one")
    return AccessToken(value, f"the token is stored in {path}; delete this file to generate a new one")

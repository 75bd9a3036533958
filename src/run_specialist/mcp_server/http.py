"""Serve MCP over HTTP: the address, the access rule, the access token, and bounds for clients.

The MCP SDK and uvicorn speak the protocols. A server for other machines belongs behind a reverse proxy, which adds TLS
and protects from slow and numerous clients better than the bounds here.
"""

import asyncio
import ipaddress
import logging
import os
import re
import secrets
import socket
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
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
from uvicorn.protocols.http.h11_impl import H11Protocol

from run_specialist.errors import UsageError, errors_as
from run_specialist.store.location import default_folder

PATH = "/mcp"
LONGEST_BODY = 4 * 1024 * 1024
"""Maximum size of a request body [bytes]."""
IDLE = 30 * 60
"""Idle timeout of a session; clients must then start a new session [s]."""
MOST_SESSIONS = 2_000
"""Maximum number of sessions, which only older versions of the protocol have; more are refused."""
MOST_CONNECTIONS = 256
"""Maximum number of connections; one more closes the connection that has waited longest for its client."""
CLIENT_TIMEOUT = 30.0
"""Timeout for receiving the headers of a request, and for its body; checked as often, so at most twice as long [s]."""
# Maximum number of bytes that are parsed at once [bytes].
_READ_SIZE = 16_384
PATIENCE = 2
"""Time for pending responses at shutdown [s]."""
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
"""Names of this machine that need no lookup."""
FILE = "mcp-token"
"""File in the user's data directory with the generated token, which stays the same because clients store it."""

_ADDRESS = re.compile(r"(?:(?P<host>\[[^\]]*\]|[^:\[\]]*):)?(?P<port>[0-9]{1,5})")
_HIGHEST_PORT = 65_535
_AUTHORITY = re.compile(r"(?:\[[^\[\]@]+\]|[^\[\]:@]+)(?::[0-9]*)?")
_DISCONNECT_CALLBACKS = "run_specialist.disconnect_callbacks"
# Printable ASCII without spaces, because HTTP headers do not carry other characters reliably.
_TOKEN = re.compile("[!-~]+")
_LONGEST_TOKEN = 4_096


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

    def __init__(self, address: Address, token: str | None) -> None:
        """Open the listening socket.

        token: the token that clients must send; None accepts all clients on this machine.
        Raises UsageError if the address is unavailable, or reachable from other machines without a token.
        """
        with errors_as(UsageError, f"--http: {address.host}", OSError, UnicodeError):
            found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        # Prefer IPv4: `localhost` resolves to both families, and clients try both.
        family, _, _, _, place = min(found, key=lambda one: one[0] != socket.AF_INET)
        self.is_private = is_loopback(str(place[0]))
        """True if only this machine can connect."""
        if not (self.is_private or token):
            raise UsageError(
                f"--http {address} is reachable from other machines: set a token with --token or "
                "SPECIALIST_MCP_TOKEN, remove --no-token, or listen on 127.0.0.1"
            )
        try:
            self._socket = socket.create_server((str(place[0]), address.port), family=family, backlog=MOST_CONNECTIONS)
        except OSError as error:
            raise UsageError(
                f"--http {address}: {os.strerror(error.errno or 0)}; choose another port, or 0 for any free port"
            ) from None
        self.url = f"http://{replace(address, port=self._socket.getsockname()[1])}{PATH}"
        """The URL for clients."""
        self._guard = Guard(token, LOOPBACK | {address.host.lower()} if self.is_private else None)
        self._web: _Web | None = None

    async def serve(self, server: Server[Any], ready: Callable[[str], None]) -> None:
        """Serve until `stop` is called."""
        app = server.streamable_http_app(
            streamable_http_path=PATH,
            max_request_body_size=LONGEST_BODY,
            session_idle_timeout=IDLE,
            max_sessions=MOST_SESSIONS,
            # `Guard` checks Host and Origin: the library's check knows no `localhost` without a port, and no token.
            transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
        )
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
        # Without a handler, the library would print a traceback for each client that disconnects during its request.
        logging.getLogger("mcp").addHandler(logging.NullHandler())
        self._web = _Web(
            uvicorn.Config(
                guarded(app, self._guard),
                http=_Connection,
                ws="none",
                lifespan="on",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_graceful_shutdown=PATIENCE,
            )
        )
        ready(self.url)
        try:
            await self._web.serve([self._socket])
        finally:
            self._socket.close()

    def stop(self) -> None:
        """Make `serve` return."""
        if self._web is not None:
            self._web.should_exit = True


class _Web(uvicorn.Server):
    """uvicorn without signal handlers: the command handles signals, because it stops the runs first."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class _Connection(H11Protocol):
    """A connection that is closed if its client does not send a whole request in time.

    uvicorn has a timeout between requests only, which each byte restarts, and no limit of connections.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.since = self.loop.time()
        # The part of a request that was awaited at the last check.
        self._awaited: object = None
        self._timer = self.loop.call_later(CLIENT_TIMEOUT, self._check)
        # asyncio reads up to 256 KiB at once, and parsing as many tiny chunks would block the event loop.
        transport.max_size = _READ_SIZE  # type: ignore[attr-defined]
        opened = [one for one in cast("set[_Connection]", self.connections) if not one.transport.is_closing()]
        if len(opened) > MOST_CONNECTIONS:
            waiting = [one for one in opened if one is not self and one.awaited_part() is not None]
            min(waiting, key=lambda one: one.since, default=self).transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._timer.cancel()
        super().connection_lost(exc)

    def awaited_part(self) -> object:
        """Return what identifies the part of a request that the client has not sent yet; None if there is none."""
        state = self.conn.their_state
        return (state, id(self.cycle)) if state in {h11.IDLE, h11.SEND_BODY} else None

    def _check(self) -> None:
        part = self.awaited_part()
        if part is not None and part == self._awaited:
            self.transport.abort()
        else:
            self._awaited = part
            self._timer = self.loop.call_later(CLIENT_TIMEOUT, self._check)


@dataclass(frozen=True)
class Guard:
    """The access rule of a server."""

    token: str | None = field(repr=False)
    """The token that clients must send; None if none is required."""
    hosts: frozenset[str] | None
    """Accepted host names; None accepts any name, for servers that require a token."""

    def refusal(self, headers: Headers) -> PlainTextResponse | None:
        """Return the response to a request with these headers that is refused; None if it is accepted.

        Checking Host and Origin prevents cross-site requests and DNS rebinding: a web page can make a browser send
        requests to this machine, also under the page's own host name.
        """
        hosts, origins, sent = (headers.getlist(name) for name in ("host", "origin", "authorization"))
        name = _host_name(f"//{hosts[0]}") if len(hosts) == 1 else None
        # The connection is closed, so that a refused client cannot keep it busy.
        closing = {"Connection": "close"}
        if name is None or not (self.hosts is None or name in self.hosts or is_loopback(name)):
            return PlainTextResponse("the Host header does not name this server\n", 421, closing)
        if len(origins) > 1 or not all(self._is_own_origin(one, hosts[0]) for one in origins):
            return PlainTextResponse("requests from this Origin are not allowed\n", 403, closing)
        kind, _, given = sent[0].partition(" ") if len(sent) == 1 else ("", "", "")
        is_right = secrets.compare_digest(given.strip().encode(), (self.token or "").encode())
        if self.token is not None and not (is_right and kind.lower() == "bearer"):
            closing["WWW-Authenticate"] = 'Bearer error="invalid_token"' if sent else "Bearer"
            text = "the header `Authorization: Bearer TOKEN` with the token of this server is required\n"
            return PlainTextResponse(text, 401, closing)
        return None

    def _is_own_origin(self, origin: str, host: str) -> bool:
        name = _host_name(origin)
        # Only after `_host_name`: some versions of Python raise for a URL without a valid host.
        if name is None or (parts := urlsplit(origin)).scheme not in {"http", "https"}:
            return False
        is_named = parts.netloc.lower() == host.lower() if self.hosts is None else name in self.hosts
        return is_named or is_loopback(name)


def is_loopback(name: str) -> bool:
    """Return whether a host name or address always refers to this machine."""
    with suppress(ValueError):
        return name in LOOPBACK or ipaddress.ip_address(name).is_loopback
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


def guarded(app: ASGIApp, guard: Guard) -> ASGIApp:
    """Return an application that refuses requests by a guard, without reading their bodies, and watches its clients."""

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        if (refusal := guard.refusal(HTTPConnection(scope).headers)) is not None:
            await refusal(scope, receive, send)
            return
        callbacks: list[Callable[[], None]] = []

        async def watch_disconnect() -> Message:
            message = await receive()
            if message["type"] == "http.disconnect":
                for callback in callbacks:
                    callback()
            return message

        await app({**scope, _DISCONNECT_CALLBACKS: callbacks}, watch_disconnect, send)

    return serve


def on_disconnect(request: object, callback: Callable[[], None]) -> None:
    """Register a function to call when the client of an HTTP request disconnects, or has received its response."""
    if isinstance(request, Request):
        request.scope[_DISCONNECT_CALLBACKS].append(callback)


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
    path = (folder or default_folder()) / FILE
    try:
        with suppress(FileNotFoundError):
            return _read(path)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Accessible to the user only.
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{FILE}-") as file:
            file.write(f"{secrets.token_urlsafe(32)}\n".encode())
            file.flush()
            with suppress(FileExistsError):
                # Atomic; a rename would replace the token of a server that has just started.
                os.link(file.name, path)
        return _read(path)
    except OSError as error:
        reason = f"{path}: {error.strerror or error}"
        return AccessToken(secrets.token_urlsafe(32), f"the token cannot be stored and changes at each start: {reason}")


def _read(path: Path) -> AccessToken:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise UsageError(f"{path} is not a regular file; delete it, and the next start generates a new token")
        if status.st_uid != os.geteuid() or status.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise UsageError(
                f"{path} belongs to another user, or is accessible to others; delete it, and the next start generates "
                "a new token"
            )
        value = file.read(_LONGEST_TOKEN).decode("ascii", "replace").strip()
    if not _TOKEN.fullmatch(value):
        raise UsageError(f"{path} does not contain a token; delete it, and the next start generates a new one")
    return AccessToken(value, f"the token is stored in {path}; delete this file to generate a new one")

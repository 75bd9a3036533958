"""Access control of the HTTP server: bearer token, Host and Origin of each request."""

import ipaddress
import re
import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from starlette.requests import HTTPConnection, Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

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

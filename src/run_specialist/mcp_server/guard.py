"""Who may talk to a server over HTTP: the token, the Host and the Origin of each request. Pure, but for the wrapper."""

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
_GONE = "run_specialist.gone"


@dataclass(frozen=True)
class Refusal:
    """Why a request is not let in."""

    status: int
    text: str
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Guard:
    """The rule for all requests of a server."""

    token: str | None = field(repr=False)
    """What a client has to send; None where none is asked for."""
    hosts: frozenset[str] | None
    """The names that this server may be called by; None for any, where only who has the token gets in."""

    def refusal(self, host: Iterable[str], origin: Iterable[str], authorization: Iterable[str]) -> Refusal | None:
        """Return why a request is refused; None where it is let in.

        A page on the web can make a browser send requests to this machine, and can let its own name lead here: neither
        its name as Host nor its Origin is let in.
        host, origin, authorization: the values of these headers, as often as they were sent.
        """
        hosts, origins, sent = [*host], [*origin], [*authorization]
        if len(hosts) != 1 or (name := _name(f"//{hosts[0]}")) is None or not self._is_ours(name):
            return Refusal(421, "this server does not go by the name in Host")
        if len(origins) > 1 or not all(self._is_own_page(one, hosts[0]) for one in origins):
            return Refusal(403, "requests of this Origin are not let in")
        if self.token is not None and not (len(sent) == 1 and _is_token(sent[0], self.token)):
            wrong = ' error="invalid_token"' if sent else ""
            return Refusal(
                401,
                "wanted the header `Authorization: Bearer TOKEN`, with the token of this server",
                {"WWW-Authenticate": f"Bearer{wrong}"},
            )
        return None

    def _is_ours(self, name: str) -> bool:
        return self.hosts is None or name in self.hosts or is_loopback(name)

    def _is_own_page(self, origin: str, host: str) -> bool:
        name = _name(origin)
        if name is None:
            return False
        # Not before: some versions of Python raise for an address that names no host.
        parts = urlsplit(origin)
        if parts.scheme not in {"http", "https"}:
            return False
        if is_loopback(name):
            return True
        return (name in self.hosts) if self.hosts is not None else parts.netloc.lower() == host.lower()


def is_loopback(name: str) -> bool:
    """Tell whether a host's name or address can only mean this machine."""
    try:
        return name in LOOPBACK or ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _name(url: str) -> str | None:
    """Return the host that a URL names, in lower case; None where it names none, or more than that."""
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
    """Lets in the requests that its guard lets in, up to a bound, and tells when a client hangs up."""

    def __init__(self, app: ASGIApp, guard: Guard, most: int, refused: Callable[[], None]) -> None:
        """Take the application and its guard.

        most: requests answered at the same time.
        refused: called for each request that exceeds this.
        """
        self._app = app
        self._guard = guard
        self._most = most
        self._refused = refused
        self._answering = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, or refuse it before its body is read."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = HTTPConnection(scope).headers
        refusal = self._guard.refusal(*(headers.getlist(name) for name in ("host", "origin", "authorization")))
        if refusal is None and self._answering >= self._most:
            self._refused()
            refusal = Refusal(503, f"{self._most} requests are being answered already; try again", {"Retry-After": "1"})
        if refusal is not None:
            # Closed, so that a client which is not let in cannot keep the connection busy.
            closing = refusal.headers | {"Connection": "close"}
            await PlainTextResponse(refusal.text + "\n", refusal.status, closing)(scope, receive, send)
            return
        told: list[Callable[[], None]] = []

        async def hear() -> Message:
            message = await receive()
            if message["type"] == "http.disconnect":
                for tell in told:
                    tell()
            return message

        self._answering += 1
        try:
            await self._app({**scope, _GONE: told}, hear, send)
        finally:
            self._answering -= 1


def when_gone(request: object, tell: Callable[[], None]) -> None:
    """Call a function when the client of an HTTP request hangs up, or has its answer."""
    if isinstance(request, Request):
        request.scope[_GONE].append(tell)

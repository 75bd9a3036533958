"""The Streamable HTTP transport: address, socket and web server."""

import asyncio
import logging
import os
import re
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.transport_security import TransportSecuritySettings

from run_specialist.errors import UsageError
from run_specialist.mcp_server.acceptor import Acceptor
from run_specialist.mcp_server.guard import LOOPBACK, Guard, GuardedApp, is_loopback
from run_specialist.mcp_server.http_connection import HttpConnection, TimeLimits
from run_specialist.mcp_server.notices import Notices
from run_specialist.mcp_server.server_limits import ServerLimits
from run_specialist.mcp_server.session_limit import SessionLimit

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

"""Streamable HTTP: the address, the socket, and the server on it."""

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
from run_specialist.mcp_server.http_connection import Connection, TimeLimits
from run_specialist.mcp_server.notices import Notices
from run_specialist.mcp_server.server_limits import ServerLimits
from run_specialist.mcp_server.session_limit import SessionLimit

PATH = "/mcp"
LONGEST_BODY = 4 * 1024 * 1024
"""A request with more is refused [bytes]."""
QUEUE = 1_024
"""Connections that the system holds until they are accepted."""
PATIENCE = 2
"""What answers have to go out in when the server ends [s]."""

_ADDRESS = re.compile(r"(?:(?P<host>\[[^\]]*\]|[^:\[\]]*):)?(?P<port>[0-9]{1,5})")
_MOST_PORTS = 65_535


@dataclass(frozen=True)
class Address:
    """Where a server listens."""

    host: str
    port: int
    """0 = any that is free."""

    def __str__(self) -> str:
        """Return it as a URL has it."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @classmethod
    def parse(cls, text: str) -> "Address":
        """Read `HOST:PORT`, `[HOST]:PORT` for IPv6, or a port alone, which means this machine only.

        Raises UsageError for anything else.
        """
        found = _ADDRESS.fullmatch(text.strip())
        if not found or int(found["port"]) > _MOST_PORTS:
            raise UsageError(f"--http: wanted HOST:PORT, [IPV6]:PORT or a port alone, found {text!r}")
        return cls((found["host"] or "").strip("[]") or "127.0.0.1", int(found["port"]))


class Http:
    """Serves all clients that come over HTTP."""

    def __init__(
        self,
        address: Address,
        token: str | None,
        say: Callable[[str], None] = print,
        bounds: ServerLimits | None = None,
    ) -> None:
        """Take the address.

        say: tells a line to who started the server.
        Raises UsageError where the address cannot be had, or is open to others and no token guards it.
        """
        family, found = _resolved(address)
        self.is_private = is_loopback(found[0])
        """True where only this machine can reach it."""
        if not (self.is_private or token):
            raise UsageError(
                f"--http {address} can be reached from other machines: set a token with --token or "
                "SPECIALIST_MCP_TOKEN, or leave out --no-token, or listen on 127.0.0.1"
            )
        try:
            self._socket = socket.create_server(found, family=family, backlog=QUEUE)
        except OSError as error:
            raise UsageError(
                f"--http {address}: {os.strerror(error.errno or 0)}; choose another port, or 0 for any that is free"
            ) from None
        port = self._socket.getsockname()[1]
        self.url = f"http://{replace(address, port=port)}{PATH}"
        """What clients are given."""
        self._guard = Guard(token, LOOPBACK | {address.host.lower()} if self.is_private else None)
        self._bounds = bounds or ServerLimits()
        self._notices = Notices(lambda count: say(self._crowded(count)), self._bounds.interval)
        self._web: _Web | None = None

    async def serve(self, server: Server[Any], ready: Callable[[str], None]) -> None:
        """Serve until `stop`."""
        # Our guard does that: the library's check lets `localhost:evil.example` in and keeps `localhost` out.
        bounds = self._bounds
        unchecked = TransportSecuritySettings(enable_dns_rebinding_protection=False)
        app = server.streamable_http_app(
            streamable_http_path=PATH,
            max_request_body_size=LONGEST_BODY,
            session_idle_timeout=bounds.idle,
            # `SessionLimit` keeps the bound; beyond it are no more than the connections over which they begin.
            max_sessions=bounds.sessions + bounds.connections,
            transport_security=unchecked,
        )
        guarded = GuardedApp(SessionLimit(app, bounds.sessions), self._guard, bounds.requests, self._notices.add)
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
        # A client that breaks off in its request is no news; without a handler the library's traceback would be.
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
        """Let `serve` return."""
        if self._web is not None:
            self._web.should_exit = True

    def _crowded(self, count: int) -> str:
        return (
            f"warning: {self._bounds.connections} connections are served at the same time; to make room, "
            f"{count} {'was' if count == 1 else 'were'} closed or refused"
        )


class _Web(uvicorn.Server):
    """uvicorn with a bound on its connections and time limits for their clients."""

    def __init__(self, config: uvicorn.Config, acceptor: Acceptor, limits: TimeLimits) -> None:
        super().__init__(config)
        self._acceptor = acceptor
        self._limits = limits
        self._accepting: asyncio.Task[None] | None = None

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the command, which first stops the runs."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:  # noqa: ARG002 - uvicorn's signature
        """Begin to accept connections."""
        await super().startup([])
        self._accepting = asyncio.create_task(self._acceptor.accept(self.server_state.connections, self._connection))

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:  # noqa: ARG002 - uvicorn's signature
        """Accept no more connections, and let the answers under way go out."""
        if self._accepting is not None:
            self._accepting.cancel()
        await super().shutdown([])

    def _connection(self) -> Connection:
        return Connection(
            self._limits,
            self._acceptor.watch,
            config=self.config,
            server_state=self.server_state,
            app_state=self.lifespan.state,
        )


def _resolved(address: Address) -> tuple[socket.AddressFamily, tuple[str, int]]:
    try:
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise UsageError(f"--http: {address.host}: {why}") from None
    # `localhost` has two addresses, and clients try both.
    family, _, _, _, place = min(found, key=lambda one: one[0] != socket.AF_INET)
    return family, (str(place[0]), address.port)

"""Accept connections up to a limit; at the limit, close the one that has waited longest for its client."""

import asyncio
import socket
from collections.abc import Callable, Sized

from run_specialist.mcp_server.http_connection import AwaitedPart, HttpConnection

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

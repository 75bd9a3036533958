"""Accepts connections up to a bound; where it is reached, the one that has waited longest for its client is closed."""

import asyncio
import socket
from collections.abc import Callable, Sized

from run_specialist.mcp_server.http_connection import AwaitedPart, Connection

RETRY_DELAY = 0.05
"""Between two attempts to accept while no connection can be closed, or no descriptor is free [s]."""


class Acceptor:
    """Accepts the connections of one listening socket.

    asyncio's own loop accepts as many as are waiting before it tells anybody, and logs a traceback for each that
    exceeds the limit of open descriptors.
    """

    def __init__(self, listening: socket.socket, most: int, closed: Callable[[], None]) -> None:
        """Take the socket and the bound.

        most: connections open at the same time.
        closed: called for each connection that is closed to make room.
        """
        listening.setblocking(False)
        self._listening = listening
        self._most = most
        self._closed = closed
        # In the order in which they began to wait. A body is only awaited from a client that was let in.
        self._waiting: dict[AwaitedPart, dict[Connection, None]] = {awaited: {} for awaited in AwaitedPart}

    def watch(self, connection: Connection, awaited: AwaitedPart | None) -> None:
        """Note what a connection waits for; None where it is being answered, or closed."""
        for waiting in self._waiting.values():
            waiting.pop(connection, None)
        if awaited is not None:
            self._waiting[awaited][connection] = None

    async def accept(self, connections: Sized, make: Callable[[], Connection]) -> None:
        """Accept until cancelled.

        connections: those that are open; each puts itself in and out.
        """
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, _ = await loop.sock_accept(self._listening)
            except OSError:
                # Most often no descriptor is free.
                self._make_room()
                await asyncio.sleep(RETRY_DELAY)
                continue
            try:
                while len(connections) >= self._most:  # noqa: ASYNC110 - connections end without telling
                    await asyncio.sleep(0 if self._make_room() else RETRY_DELAY)
                await loop.connect_accepted_socket(make, accepted)
            except OSError:
                # Its client is gone again already.
                accepted.close()
            except asyncio.CancelledError:
                accepted.close()
                raise

    def _make_room(self) -> bool:
        """Close the connection that has waited longest for its client, one without a whole head first."""
        for awaited in (AwaitedPart.CLOSE, AwaitedPart.HEAD, AwaitedPart.BODY):
            for connection in self._waiting[awaited]:
                self.watch(connection, None)
                connection.drop()
                self._closed()
                return True
        return False

"""The writing side of one connection, as used by replies and faults."""

import socket
import struct
import threading
from collections.abc import Iterable, Mapping
from http.server import BaseHTTPRequestHandler

from .prompt import serialise

JSON = "application/json"
EVENTS = "text/event-stream; charset=utf-8"


class Wire:
    """Write one response, well formed or broken on purpose."""

    def __init__(self, handler: BaseHTTPRequestHandler, request_id: str, stopping: threading.Event) -> None:
        self._handler = handler
        self._request_id = request_id
        self._stopping = stopping

    def send(self, status: int, body: bytes, *, kind: str = JSON, headers: Mapping[str, str] | None = None) -> None:
        """Send a whole response."""
        self._head(status, kind, {"content-length": str(len(body)), **(headers or {})}, body)

    def send_error(self, status: int, kind: str, message: str, headers: Mapping[str, str] | None = None) -> None:
        """Send an error in the API's shape."""
        error = {"type": kind, "message": message}
        shape = {"type": "error", "error": error, "request_id": self._request_id}
        self.send(status, serialise(shape), headers=headers)

    def send_unsized(self, body: bytes, *, kind: str = JSON) -> None:
        """Send a response that announces no length and ends with the connection."""
        self._head(200, kind, {"connection": "close"}, body)
        self.drop()

    def send_part(self, body: bytes, announced: int) -> None:
        """Announce a longer body than is sent, then close the connection."""
        self._head(200, JSON, {"content-length": str(announced)}, body)
        self.drop()

    def send_events(self, events: Iterable[bytes], *, complete: bool = True) -> None:
        """Send a stream, every event cut in two, even within a character; unless `complete`, leave the end away."""
        self._head(200, EVENTS, {"transfer-encoding": "chunked", "cache-control": "no-cache"})
        for event in events:
            middle = len(event) // 2
            for part in (event[:middle], event[middle:]):
                self._handler.wfile.write(b"%x\r\n%b\r\n" % (len(part), part))
        if complete:
            self._handler.wfile.write(b"0\r\n\r\n")
        else:
            self.drop()

    def hold(self, event: threading.Event | None = None, timeout: float | None = None) -> bool:
        """Wait for an event or a time; return False when the simulator stops first."""
        if event is None:
            self._stopping.wait(timeout)
        else:
            while not event.wait(0.02) and not self._stopping.is_set():
                pass
        return not self._stopping.is_set()

    def reset(self) -> None:
        """Break the connection with a TCP reset."""
        linger = struct.pack("ii", 1, 0)
        self._handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self._handler.close_connection = True

    def drop(self) -> None:
        """Close the connection after what has been written."""
        self._handler.close_connection = True

    def _head(self, status: int, kind: str, headers: Mapping[str, str], body: bytes = b"") -> None:
        lines = {"content-type": kind, "request-id": self._request_id, **headers}
        if lines.get("connection") == "close":
            self._handler.close_connection = True
        head = [f"HTTP/1.1 {status} {self._handler.responses.get(status, ('Status',))[0]}"]
        head += [f"{name}: {value}" for name, value in lines.items()]
        self._handler.wfile.write("\r\n".join([*head, "", ""]).encode("latin-1") + body)

"""A loopback HTTP server in a background thread that can always be stopped."""

import socket
import struct
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast
from weakref import WeakSet

from .rules.http import MAX_BODY
from .wire import Wire

PATIENCE = 60.0
"""Longest wait for a handler when the server stops [s]."""
STEP = 1024 * 1024


@dataclass(frozen=True)
class Incoming:
    """Hold one request as read from the wire."""

    method: str
    path: str
    headers: Mapping[str, str]
    raw: bytes
    too_large: bool


Answering = Callable[[Incoming, Callable[[str], Wire]], None]
"""Answers one request; the second argument makes the wire from a request id."""


class Loopback:
    """Serve HTTP on a free port of 127.0.0.1 until it is stopped."""

    def __init__(self, answer: Answering) -> None:
        self.stopping = threading.Event()
        self._server = _Server(("127.0.0.1", 0), _Handler, bind_and_activate=True)
        self._server.answer = answer
        self._server.stopping = self.stopping
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, name="simulator", daemon=True
        )

    @property
    def url(self) -> str:
        """Return the address to point a client at."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def start(self) -> None:
        """Begin to serve."""
        self._thread.start()

    def stop(self) -> list[str]:
        """Close every connection, join every thread, and return what would not end."""
        self.stopping.set()
        self._server.shutdown()
        self._thread.join(PATIENCE)
        self._server.hang_up()
        stuck = [thread.name for thread in self._server.handlers() if _outlives(thread)]
        self._server.server_close()
        return [f"a handler did not end: {name}" for name in stuck]


class _Server(ThreadingHTTPServer):
    request_queue_size = 1024
    answer: Answering
    stopping: threading.Event

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self._guard = threading.Lock()
        self._open: set[socket.socket] = set()
        self._handlers = WeakSet[threading.Thread]()
        """Those that have not ended, also while they close their connection."""
        super().__init__(*arguments, **options)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection in a thread of its own, known before it begins."""
        thread = threading.Thread(
            target=self.process_request_thread, args=(request, client_address), name="connection", daemon=True
        )
        with self._guard:
            self._open.add(request)
            self._handlers.add(thread)
        thread.start()

    def shutdown_request(self, request: Any) -> None:
        """Close a connection; one that is to be reset without the farewell of a good end."""
        with self._guard:
            self._open.discard(request)
        (lingers,) = struct.unpack("i4x", request.getsockopt(socket.SOL_SOCKET, socket.SO_LINGER, 8))
        if lingers:
            self.close_request(request)
        else:
            super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Keep quiet: what goes wrong in a handler is recorded, and a client may hang up."""

    def hang_up(self) -> None:
        """Wake the handlers that wait for another request."""
        with self._guard:
            for connection in self._open:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def handlers(self) -> list[threading.Thread]:
        """Return the threads that still serve or close a connection."""
        with self._guard:
            return list(self._handlers)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name in http.server
        """Keep quiet."""

    def _serve(self) -> None:
        server = cast("_Server", self.server)
        raw, too_large = self._read()
        if not too_large and len(raw) < int(self.headers.get("content-length") or 0):
            # The client disconnected within the body, so there is no request yet.
            self.close_connection = True
            return
        headers = {name.lower(): value for name, value in self.headers.items()}
        incoming = Incoming(self.command, self.path, headers, raw, too_large)
        with suppress(ConnectionError):
            server.answer(incoming, lambda request_id: Wire(self, request_id, server.stopping))

    do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = do_HEAD = _serve  # noqa: N815 - the names in http.server

    def _read(self) -> tuple[bytes, bool]:
        """Return the body and whether it was too large, in which case it is thrown away."""
        if self.headers.get("transfer-encoding", "").lower() == "chunked":
            raw = self._read_chunks()
            return raw, len(raw) > MAX_BODY
        length = int(self.headers.get("content-length") or 0)
        if length <= MAX_BODY:
            return self.rfile.read(length), False
        while length > 0:
            length -= len(self.rfile.read(min(STEP, length))) or length
        return b"", True

    def _read_chunks(self) -> bytes:
        parts = []
        while size := int(self.rfile.readline().split(b";")[0] or b"0", 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass
        return b"".join(parts)


def _outlives(thread: threading.Thread) -> bool:
    thread.join(PATIENCE)
    return thread.is_alive()

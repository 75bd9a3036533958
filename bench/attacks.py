"""Attacks on `specialists mcp --http`, for `bench.mcp_attacks`."""

import json
import socket
from collections.abc import Callable, Iterator

HEAD = (
    "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    "Accept: application/json, text/event-stream\r\n"
)
ASK = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "tools/list",
    "params": {
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        }
    },
}
BEGIN = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}},
}

Attack = Callable[["Target"], Iterator[None]]
"""Performs one step per `next`: opens connections, or sends more data over the open ones."""


class Target:
    """A server under attack."""

    def __init__(self, port: int, token: str | None) -> None:
        self.port = port
        self.known = f"Authorization: Bearer {token}\r\n" if token else ""
        self.open: list[socket.socket] = []
        self.refused = 0

    def connect(self, data: bytes = b"") -> socket.socket | None:
        """Open a non-blocking connection and send as much data as fits."""
        connection = socket.socket()
        connection.settimeout(2)
        try:
            connection.connect(("127.0.0.1", self.port))
            connection.setblocking(False)
            connection.send(data) if data else None
        except OSError:
            self.refused += 1
            connection.close()
            return None
        self.open.append(connection)
        return connection

    def drip(self, data: bytes) -> None:
        """Send over every open connection and remove the closed ones."""
        for connection in [*self.open]:
            try:
                connection.send(data)
            except BlockingIOError:
                pass
            except OSError:
                self.open.remove(connection)
                connection.close()

    def crowd(self, count: int, data: bytes, then: bytes = b"") -> Iterator[None]:
        """Keep `count` connections open and send `then` over them repeatedly."""
        while True:
            for _ in range(min(count - len(self.open), 100)):
                self.connect(data)
            self.drip(then) if then else self._reap()
            yield

    def _reap(self) -> None:
        for connection in [*self.open]:
            try:
                if not connection.recv(65_536):
                    raise ConnectionResetError
            except BlockingIOError:
                continue
            except OSError:
                self.open.remove(connection)
                connection.close()


def _storm(target: Target) -> Iterator[None]:
    while True:
        for _ in range(200):
            target.connect()
        for connection in target.open:
            connection.close()
        target.open.clear()
        yield


def _pipelined(target: Target) -> Iterator[None]:
    one = f"GET /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n{target.known}\r\n".encode()
    for _ in target.crowd(50, one * 200, one * 200):
        yield


def _sessions(target: Target) -> Iterator[None]:
    body = json.dumps(BEGIN)
    one = f"{HEAD}{target.known}Connection: close\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()
    for _ in target.crowd(100, one):
        yield


def _crowd(count: int, data: str, then: bytes = b"", *, known: bool = False) -> Attack:
    return lambda target: target.crowd(
        count, data.replace("KNOWN", target.known if known else "").encode("latin-1"), then
    )


CHUNKED = f"{HEAD}KNOWNTransfer-Encoding: chunked\r\n\r\n"
ATTACKS: dict[str, Attack] = {
    "half request line": _crowd(400, "POST /m"),
    "half headers": _crowd(400, HEAD),
    "headers, 1 byte at a time": _crowd(400, f"{HEAD}X: ", b"x"),
    "endless headers": _crowd(100, HEAD, b"X-More: " + b"x" * 400 + b"\r\n"),
    "half body, no token": _crowd(400, f"{HEAD}Content-Length: 99\r\n\r\n{{"),
    "half body, token": _crowd(400, f"{HEAD}KNOWNContent-Length: 99\r\n\r\n{{", known=True),
    "half of 4 MB, token": _crowd(100, f"{HEAD}KNOWNContent-Length: 4000000\r\n\r\n", b" " * 60_000, known=True),
    "chunks, 1 byte at a time": _crowd(400, CHUNKED, b"1\r\nx\r\n", known=True),
    "many chunks of 1 byte, no token": _crowd(50, CHUNKED, b"1\r\nx\r\n" * 10_000),
    "endless chunk header": _crowd(100, CHUNKED, b"0" * 400, known=True),
    "2,000 idle connections": _crowd(2_000, ""),
    "connection storm": _storm,
    "pipelined, answers not read": _pipelined,
    "HTTP/1.0": _crowd(200, "GET /mcp HTTP/1.0\r\n\r\n"),
    "Upgrade": _crowd(
        200, "GET /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nKNOWNConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    ),
    "HTTP/2 preface": _crowd(200, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    "CONNECT": _crowd(200, "CONNECT x:1 HTTP/1.1\r\nHost: 127.0.0.1\r\nKNOWN\r\n", b"x", known=True),
    "wrong Content-Length": _crowd(200, f"{HEAD}KNOWNContent-Length: -1\r\n\r\n", known=True),
    "short Content-Length": _crowd(200, f"{HEAD}KNOWNContent-Length: 1\r\n\r\n{json.dumps(ASK)}", known=True),
    "TLS": _crowd(200, "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + "\x00" * 200),
    "noise": _crowd(200, "\x00\xff\r\n\r\n" * 50, b"\xfe\r\n"),
    "sessions": _sessions,
}

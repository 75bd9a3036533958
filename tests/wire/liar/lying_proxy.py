"""A proxy in raw asyncio that can break any rule of HTTP; the simulator answers every request it does not corrupt."""

import asyncio
import json
import re
import socket
import struct
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Self
from urllib.parse import urlsplit

JSON, EVENTS = "application/json", "text/event-stream; charset=utf-8"
Body = dict[str, Any]
Aim = Callable[[Body], bool]
"""Decides by the parsed body whether the reply to a request is corrupted."""
Play = Callable[["Line"], Awaitable[None]]
"""Corrupts the reply to one request."""


@dataclass(frozen=True)
class Good:
    """The reply from the simulator."""

    raw: bytes
    """The response as received."""
    kind: str
    """The content type."""
    body: bytes
    """The body, with the chunks joined."""

    @property
    def events(self) -> list[bytes]:
        """The events of a stream, each with its trailing empty line; for other replies the body alone."""
        if self.kind != EVENTS:
            return [self.body]
        return [event + b"\n\n" for event in self.body.split(b"\n\n") if event]


class Line:
    """One connection while a request on it is answered."""

    def __init__(self, liar: "Liar", reader: asyncio.StreamReader, writer: asyncio.StreamWriter, raw: bytes) -> None:
        self.liar = liar
        self.keeps_alive = False
        self._reader, self._writer, self._raw = reader, writer, raw

    async def good(self) -> Good:
        """Return the simulator's reply."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.liar.behind)
        try:
            writer.write(re.sub(rb"(?i)\r\nconnection: keep-alive", b"\r\nconnection: close", self._raw, count=1))
            raw = await reader.read()
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()
        head, _, body = raw.partition(b"\r\n\r\n")
        kind = re.search(rb"(?i)\r\ncontent-type: ([^\r]*)", head)
        if b"transfer-encoding: chunked" in head.lower():
            body = _joined(body)
        return Good(raw, kind[1].decode() if kind else "", body)

    async def write(self, *parts: bytes) -> None:
        """Send some bytes; raises ConnectionError once the client has disconnected."""
        self._writer.write(b"".join(parts))
        await self._writer.drain()
        if self._reader.at_eof():
            raise ConnectionResetError

    async def head(self, status: int = 200, kind: str = JSON, **headers: object) -> None:
        """Send the head of a response; `_` in a name means `-`, and a value of None omits the header."""
        given = {"content_type": kind, **headers}
        lines = [f"{name.replace('_', '-')}: {value}" for name, value in given.items() if value is not None]
        await self.write("\r\n".join([f"HTTP/1.1 {status} Status", *lines, "", ""]).encode())

    async def send(self, body: bytes, status: int = 200, kind: str = JSON, **headers: object) -> None:
        """Send a whole response."""
        await self.head(status, kind, **{"content_length": len(body), **headers})
        await self.write(body)

    async def chunk(self, body: bytes) -> None:
        """Send one chunk of a body."""
        await self.write(b"%x\r\n" % len(body), body, b"\r\n")

    async def stall(self) -> None:
        """Send nothing more, and wait until the client disconnects."""
        with suppress(ConnectionError):
            await self._reader.read()

    def reset(self) -> None:
        """Close the connection with a TCP reset."""
        linger = struct.pack("ii", 1, 0)
        self._writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self._writer.transport.abort()


@dataclass
class Liar:
    """The fault-injecting server; `async with` starts and stops it."""

    url_behind: str
    """URL of the simulator."""
    play: Play
    aim: Aim
    heals_after: int | None = None
    """Number of replies to corrupt; None = all that `aim` selects."""
    struck: int = 0
    """Number of replies corrupted so far."""
    open: int = 0
    """Number of open connections."""
    on_struck: Callable[[], None] = lambda: None
    """Called before each corrupted reply."""
    problems: list[str] = field(default_factory=list)
    """Unexpected errors in `play`, which are bugs of the test."""
    port: int = 0
    _server: asyncio.Server | None = None
    _serving: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def behind(self) -> int | None:
        """The port of the simulator."""
        return urlsplit(self.url_behind).port

    @property
    def url(self) -> str:
        """The address for a client's `base_url`."""
        return self.url_behind.replace(f":{self.behind}", f":{self.port}")

    async def listen(self) -> None:
        """Accept connections, on the same port as before."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, limit=2**24, backlog=512)
        self.port = self._server.sockets[0].getsockname()[1]

    def refuse(self) -> None:
        """Accept no further connections."""
        if self._server is not None:
            self._server.close()
            self._server = None

    async def heal(self) -> None:
        """Corrupt no further replies, and accept connections again."""
        self.heals_after = 0
        if self._server is None:
            await self.listen()

    async def __aenter__(self) -> Self:
        await self.listen()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.refuse()
        serving = list(self._serving)
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        self.open += 1
        try:
            while await self._answer(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, TimeoutError):
            pass  # the client has disconnected
        except asyncio.CancelledError:
            pass  # the server is stopping
        except Exception as error:  # noqa: BLE001 - reported when the case is checked
            self.problems.append(repr(error))
        finally:
            self.open -= 1
            self._serving.discard(task)
            writer.transport.abort() if writer.transport.get_write_buffer_size() else writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer one request; return False if the connection is to be closed."""
        head = await reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"(?i)\r\ncontent-length: (\d+)", head)
        body = await reader.readexactly(int(length[1])) if length else b""
        line = Line(self, reader, writer, head + body)
        if self.heals_after != 0 and self.aim(_parsed(body)):
            self.struck += 1
            self.heals_after = None if self.heals_after is None else self.heals_after - 1
            self.on_struck()
            await self.play(line)
            return line.keeps_alive
        await line.write((await line.good()).raw)
        return True


def _parsed(body: bytes) -> Body:
    try:
        value = json.loads(body)
    except ValueError:
        value = None
    return value if isinstance(value, Mapping) else {}


def _joined(chunked: bytes) -> bytes:
    """Return a chunked body with its chunks joined."""
    body, rest = b"", chunked
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        length = int(size, 16)
        if not length:
            break
        body, rest = body + rest[:length], rest[length + 2 :]
    return body

"""A web server on loopback that sends given bytes."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field


@dataclass
class Pages:
    """The requests that the server received, and its address."""

    port: int = 0
    requests: list[str] = field(default_factory=list)
    """The head of each request."""

    def url(self, path: str = "/", host: str = "127.0.0.1") -> str:
        """Return the URL of a page."""
        return f"http://{host}:{self.port}{path}"


Reply = bytes | Callable[[str], bytes]
"""The bytes of every reply, or a function that makes them from the head of a request."""


@asynccontextmanager
async def serving(reply: Reply | None, *, endless: bytes = b"") -> AsyncIterator[Pages]:
    """Run the server.

    reply: None = it never answers.
    endless: sent again and again after the reply, until the client ends the connection.
    """
    pages = Pages()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            pages.requests.append(head)
            if reply is None:
                await reader.read()
            else:
                writer.write(reply if isinstance(reply, bytes) else reply(head))
            while endless:
                writer.write(endless)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        pages.port = server.sockets[0].getsockname()[1]
        yield pages


def replied(body: bytes = b"", *headers: str, status: str = "200 OK", kind: str = "text/plain") -> bytes:
    """Return a whole reply."""
    lines = [f"HTTP/1.1 {status}", f"content-type: {kind}", f"content-length: {len(body)}", *headers]
    return "\r\n".join([*lines, "connection: close", "", ""]).encode() + body

"""Minimal HTTP/1.1 server for API clients: requests with a Content-Length on persistent connections."""

import asyncio
from http import HTTPStatus
from typing import cast

from bench.server.service import Response, Service

_HEAD_END = b"\r\n\r\n"


class Connection(asyncio.Protocol):
    """Reads requests and sends the responses of the service."""

    def __init__(self, service: Service) -> None:
        """Set the service that answers requests."""
        self._service = service
        self._read = bytearray()
        self._target = ""
        self._body_at = 0
        self._end = 0
        """End of the current request; 0 while its head is incomplete."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport."""
        self._transport = cast("asyncio.Transport", transport)

    def close(self) -> None:
        """Close the connection."""
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        """Answer each complete request."""
        self._read += data
        while (self._end or self._read_head()) and len(self._read) >= self._end:
            body = bytes(memoryview(self._read)[self._body_at : self._end])
            del self._read[: self._end]
            self._end = 0
            self._send_later(self._service.answer(self._target, body))

    def _read_head(self) -> bool:
        """Parse the target and length of the request; return False while its head is incomplete."""
        ends = self._read.find(_HEAD_END)
        if ends < 0:
            return False
        first, *lines = self._read[:ends].decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        self._target = first.split(" ")[1]
        self._body_at = ends + len(_HEAD_END)
        self._end = self._body_at + int(headers.get("content-length", 0))
        return True

    def _send_later(self, response: Response) -> None:
        raw = (
            f"HTTP/1.1 {response.status} {HTTPStatus(response.status).phrase}\r\n"
            f"content-type: {response.kind}\r\ncontent-length: {len(response.body)}\r\nrequest-id: req_bench\r\n\r\n"
        ).encode() + response.body
        if response.delay:
            asyncio.get_running_loop().call_later(response.delay, self._send, raw)
        else:
            self._send(raw)

    def _send(self, raw: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(raw)


async def serve(port: int = 0) -> None:
    """Serve on the loopback interface until cancelled; print the port once it is open.

    port: 0 for any free port.
    """
    service = Service()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(service), "127.0.0.1", port, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()

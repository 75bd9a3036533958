"""A connection to PostgreSQL that can be cut: a TCP proxy on loopback, for one worker."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class Cuttable:
    """Forwards connections, until they are cut."""

    def __init__(self, port: int) -> None:
        """Set the port to forward to."""
        self._to = port
        self.port = 0
        self.is_cut = False
        """While True, nothing is forwarded; sent data is lost, as behind a broken switch."""
        self._writers: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()

    def drop(self) -> None:
        """Close all connections immediately."""
        self._loop.call_soon_threadsafe(lambda: [writer.transport.abort() for writer in self._writers])

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.is_cut:
            writer.transport.abort()
            return
        there, back = await asyncio.open_connection("127.0.0.1", self._to)
        await asyncio.gather(self._forward(reader, back), self._forward(there, writer))

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        with suppress(OSError):
            while data := await reader.read(65_536):
                if not self.is_cut:
                    writer.write(data)
                    await writer.drain()
        self._writers.discard(writer)
        writer.transport.abort()

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]

    @contextmanager
    def serving(self) -> Iterator[None]:
        """Forward in a thread while the block runs."""
        self._loop.run_until_complete(self._serve())
        thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            thread.join()

"""A server of a test on loopback, in a thread with an event loop of its own."""

import asyncio
import re
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]
"""Answers the requests of one connection."""


async def read_request(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    """Return the head and the body of the next request; raises IncompleteReadError at the end of the connection."""
    head = await reader.readuntil(b"\r\n\r\n")
    size = re.search(rb"content-length: *(\d+)", head, re.IGNORECASE)
    return head, await reader.readexactly(int(size[1]) if size else 0)


@contextmanager
def in_thread(serve: Serve) -> Iterator[str]:
    """Run a server; yield its URL."""
    ready = threading.Event()
    urls: list[str] = []
    stop: list[Callable[[], object]] = []

    async def run() -> None:
        over, loop = asyncio.Event(), asyncio.get_running_loop()
        stop.append(lambda: loop.call_soon_threadsafe(over.set))
        server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=2**22, backlog=4096)
        urls.append(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        ready.set()
        await over.wait()
        server.close()

    thread = threading.Thread(target=asyncio.run, args=(run(),))
    thread.start()
    ready.wait()
    try:
        yield urls[0]
    finally:
        stop[0]()
        thread.join()

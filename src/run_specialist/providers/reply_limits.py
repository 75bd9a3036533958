"""A reply has an end: a server that sends more than any model says is hung up on, before it fills the memory."""

import time
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import TYPE_CHECKING
from weakref import ref

from run_specialist.errors import ProviderError

if TYPE_CHECKING:
    import httpx2

MIB = 2**20
LONGEST_BODY = 32 * MIB
"""The largest reply that is asked for has a few hundred bytes of events for each of 32,000 tokens [bytes]."""
LONGEST_REPLY = 3600.0
"""Whoever sends a byte now and then is not waited for any longer [s]."""
LONGEST_PAUSE = 600.0
"""A server that says nothing for so long is given up, as the SDKs do [s]."""
LONGEST_CONNECT = 20.0
"""The SDKs' own 5 s are too few where one loop opens a connection for each of a thousand children [s]."""


async def bound_body(response: "httpx2.Response") -> None:
    """Put an end to a body that has none, and to a small one that unpacks to a huge one.

    A response hook of the HTTP client. Reading the body then raises ProviderError.
    """
    kind, itself = type(response), ref(response)

    async def bounded(chunk_size: int | None = None) -> AsyncIterator[bytes]:
        size, begun, whole = 0, time.monotonic(), itself()
        if whole is None:
            return
        async with aclosing(kind.aiter_bytes(whole, chunk_size)) as parts:
            async for part in parts:
                size += len(part)
                if size > LONGEST_BODY:
                    raise ProviderError(f"the server's reply is longer than {LONGEST_BODY // MIB} MiB; try again")
                if time.monotonic() - begun > LONGEST_REPLY:
                    raise ProviderError(f"the server's reply took more than {LONGEST_REPLY:.0f} seconds; try again")
                yield part

    # What reads whole bodies, and what reads streams, goes through this one method. It must not hold what holds it.
    response.aiter_bytes = bounded  # type: ignore[method-assign, assignment]

"""Limit size and duration of replies, so that a faulty server can neither fill the memory nor block a run."""

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
"""Maximum size of a body; the largest requested reply has 32,000 tokens, with some hundred bytes per event [bytes]."""
LONGEST_REPLY = 3600.0
"""Maximum duration of a reply, which ends replies that trickle in byte by byte [s]."""
LONGEST_PAUSE = 600.0
"""Read timeout, the default of the SDKs [s]."""
LONGEST_CONNECT = 20.0
"""Connect timeout; the SDKs' 5 s are too short if one loop connects for a thousand children [s]."""


async def bound_body(response: "httpx2.Response") -> None:
    """Limit the body of a response, including small bodies that decompress to huge ones.

    Used as a response hook of the HTTP client. Reading a body beyond the limits raises ProviderError.
    """
    kind, reference = type(response), ref(response)

    async def bounded(chunk_size: int | None = None) -> AsyncIterator[bytes]:
        size, begun, unbounded = 0, time.monotonic(), reference()
        if unbounded is None:
            return
        async with aclosing(kind.aiter_bytes(unbounded, chunk_size)) as parts:
            async for part in parts:
                size += len(part)
                if size > LONGEST_BODY:
                    raise ProviderError(f"the server's reply is longer than {LONGEST_BODY // MIB} MiB; try again")
                if time.monotonic() - begun > LONGEST_REPLY:
                    raise ProviderError(f"the server's reply took more than {LONGEST_REPLY:.0f} seconds; try again")
                yield part

    # Plain and streamed reading both use this method. The weak reference avoids a reference cycle.
    response.aiter_bytes = bounded  # type: ignore[method-assign, assignment]

"""The hand-written loop of `bare` on the SDK's client for aiohttp, which run-specialist uses too."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from bench.given import Child, Conditions
from bench.peers import bare


@asynccontextmanager
async def opened(conditions: Conditions) -> AsyncIterator[Child]:
    """Open a client for the lap."""
    from anthropic import DefaultAioHttpClient  # noqa: PLC0415 - part of what is measured

    async with bare.opened(conditions, http_client=DefaultAioHttpClient()) as child:
        yield child

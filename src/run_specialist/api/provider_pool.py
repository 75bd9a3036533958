"""Cache of the providers of a `Runner`: one per model and event loop."""

import asyncio
import weakref
from contextlib import AsyncExitStack, suppress

from run_specialist.providers.base import Provider
from run_specialist.providers.choose import make_provider
from run_specialist.providers.local.local_servers import prefix_of


class ProviderPool:
    """Creates providers on demand; runs with the same model in the same event loop share a connection pool."""

    def __init__(self) -> None:
        self._providers: dict[tuple[asyncio.AbstractEventLoop, str], Provider] = {}
        # Avoids a ResourceWarning for each connection if the program never calls `aclose`.
        weakref.finalize(self, _close_without_loop, self._providers)

    async def provider(self, model: str) -> Provider:
        """Return the provider of a model for the running event loop; create it on first use.

        Raises UsageError if the model is unknown, its credentials are missing, or its local server does not answer.
        """
        key = (asyncio.get_running_loop(), model)
        if key not in self._providers:
            provider = await _local(model) if prefix_of(model) else make_provider(model)
            if key in self._providers:
                # Another run has created one while this one waited for the server.
                await provider.aclose()
            else:
                self._providers[key] = provider
        return self._providers[key]

    async def aclose(self) -> None:
        """Close all connections; connections of event loops that have ended are dropped."""
        async with AsyncExitStack() as parts:
            for provider in self._providers.values():
                parts.push_async_callback(provider.aclose)
            self._providers.clear()


async def _local(model: str) -> Provider:
    from run_specialist.providers.local.local_provider import local_provider  # noqa: PLC0415 - loaded on demand

    return await local_provider(model)


def _close_without_loop(providers: dict[tuple[asyncio.AbstractEventLoop, str], Provider]) -> None:
    """Start closing each provider; without an event loop, nothing can wait for the end."""
    for provider in providers.values():
        closing = provider.aclose()
        with suppress(BaseException):
            closing.send(None)
        closing.close()

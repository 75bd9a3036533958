"""Cache of the providers of a `Runner`: one per model and event loop."""

import asyncio
import threading
import weakref
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from run_specialist.providers.admission.gate import ceiling
from run_specialist.providers.base import Provider
from run_specialist.providers.choose import make_provider
from run_specialist.providers.knowledge import InformedProvider, Knowledge
from run_specialist.providers.local.local_servers import WEIGHTS, prefix_of

if TYPE_CHECKING:
    from run_specialist.providers.local.model_files import ModelFiles


class ProviderPool:
    """Creates providers on demand; runs with the same model in the same event loop share a connection pool."""

    def __init__(self, requests_at_once: int | None = None) -> None:
        """Create an empty pool.

        requests_at_once: as in `Runner`.
        Raises UsageError if it, or the environment variable in its place, is not an integer of at least 1.
        """
        self._requests_at_once = ceiling(requests_at_once)
        self._files: ModelFiles | None = None
        self._lock = threading.Lock()
        """Guards the local servers, which several event loops may share."""
        self._providers: dict[tuple[asyncio.AbstractEventLoop, str], Provider] = {}
        self._knowledge: dict[tuple[str, str], Knowledge] = {}
        # Avoids a ResourceWarning for each connection if the program never calls `aclose`.
        weakref.finalize(self, _close_without_loop, self._providers)

    async def provider(self, model: str, report: Callable[[str], None] | None = None) -> Provider:
        """Return the provider of a model for the running event loop; create it on first use.

        report: called with a line while the weights of a model are loaded.
        Raises UsageError if the model is unknown, its credentials are missing, or its local server does not answer.
        """
        key = (asyncio.get_running_loop(), model)
        if key not in self._providers or _has_ended(self._providers[key]):
            ended = self._providers.pop(key, None)
            provider = await self._local(model, report) if prefix_of(model) else make_provider(model)
            if ended:
                await ended.aclose()
            if key in self._providers:
                # Another run has created one while this one waited for the server.
                await provider.aclose()
            else:
                self._providers[key] = self._with_knowledge(provider)
        return self._providers[key]

    def _with_knowledge(self, provider: Provider) -> Provider:
        """Return a provider that shares what providers in other event loops have learned about the endpoint."""
        if isinstance(provider, InformedProvider):
            known = self._knowledge.setdefault(provider.address, provider.knowledge)
            # The server may have another context since it was started again.
            told = provider.capabilities
            known.capabilities = replace(
                known.capabilities,
                context_tokens=told.context_tokens,
                context_note=told.context_note,
                max_output_tokens=told.max_output_tokens,
            )
            provider.knowledge = known
        return self.limited(provider)

    def limited(self, provider: Provider) -> Provider:
        """Return a provider that makes only as many concurrent requests as this pool allows."""
        if isinstance(provider, InformedProvider) and self._requests_at_once is not None:
            provider.requests_at_once = self._requests_at_once
        return provider

    async def aclose(self) -> None:
        """Close all connections; connections of event loops that have ended are dropped."""
        async with AsyncExitStack() as parts:
            for provider in self._providers.values():
                parts.push_async_callback(provider.aclose)
            self._providers.clear()
            if self._files is not None:
                # First, so that no connection waits for a server that is still calculating.
                await self._files.aclose()
                self._files = None

    async def _local(self, model: str, report: Callable[[str], None] | None) -> Provider:
        if prefix_of(model) != WEIGHTS:
            from run_specialist.providers.local.local_provider import local_provider  # noqa: PLC0415 - on demand

            return await local_provider(model)
        from run_specialist.providers.local.model_files import ModelFiles  # noqa: PLC0415 - on demand

        with self._lock:
            files = self._files = self._files or ModelFiles()
        return await files.provider(model, report)


def _has_ended(provider: Provider) -> bool:
    """Return whether the server that was started for a provider has ended."""
    failure = getattr(provider, "failure_of_server", None)
    return failure is not None and bool(failure(0))


def _close_without_loop(providers: dict[tuple[asyncio.AbstractEventLoop, str], Provider]) -> None:
    """Start closing each provider; without an event loop, nothing can wait for the end."""
    for provider in providers.values():
        closing = provider.aclose()
        with suppress(BaseException):
            closing.send(None)
        closing.close()

"""The providers of a `Runner`: one for each model, in each event loop that it is used from."""

import asyncio
import weakref
from contextlib import AsyncExitStack, suppress

from run_specialist.providers.base import Provider
from run_specialist.providers.choose import make_provider


class ProviderPool:
    """Children of one model share a connection pool, which belongs to the loop that it was opened in."""

    def __init__(self) -> None:
        self._made: dict[tuple[asyncio.AbstractEventLoop, str], Provider] = {}
        # Whoever forgets to close shall not read of each connection on standard error.
        weakref.finalize(self, _let_go, self._made)

    def provider(self, model: str) -> Provider:
        """Return the provider of a model, made where there is none; for a task of the loop that will use it.

        Raises UsageError for a model that cannot be reached from here.
        """
        place = (asyncio.get_running_loop(), model)
        if place not in self._made:
            self._made[place] = make_provider(model)
        return self._made[place]

    async def aclose(self) -> None:
        """Close all connections; those of a loop that has ended are only let go."""
        async with AsyncExitStack() as parts:
            for provider in self._made.values():
                parts.push_async_callback(provider.aclose)
            self._made.clear()


def _let_go(made: dict[tuple[asyncio.AbstractEventLoop, str], Provider]) -> None:
    """Begin to close, where no loop is there to wait for the end of it."""
    for provider in made.values():
        closing = provider.aclose()
        with suppress(BaseException):
            closing.send(None)
        closing.close()

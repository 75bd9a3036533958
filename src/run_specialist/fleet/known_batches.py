"""The batches in the queue from the view of one worker: those that it can work on, and those that it has refused."""

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any

from run_specialist.errors import RunSpecialistError, UsageError
from run_specialist.fleet.batch_here import BatchHere
from run_specialist.fleet.queue import Queue


class KnownBatches:
    """Opens each batch once, and checks that its runs can begin on this host."""

    def __init__(
        self, queue: Queue, url: str, roots: Mapping[str, Path], say: Callable[[str], None], *, trust: bool
    ) -> None:
        """Start without batches; the parameters are those of `Worker`."""
        self._queue, self._url, self._roots, self._say, self._trust = queue, url, dict(roots), say, trust
        self._known: dict[str, BatchHere | None] = {}
        """Batches by id; None for a batch that this worker has refused."""

    async def usable(self, batch_id: str) -> BatchHere | None:
        """Return a batch that this worker can work on; otherwise print the reason once, and leave its items to others.

        Raises QueueAway.
        """
        if batch_id not in self._known:
            self._known[batch_id] = await self._opened(batch_id, await self._queue.frozen(batch_id))
        return self._known[batch_id]

    async def _opened(self, batch_id: str, content: Mapping[str, Any]) -> BatchHere | None:
        try:
            batch = BatchHere.found(batch_id, content, self._roots, self._url, trust=self._trust)
        except UsageError as error:
            self._say(f"refused: {error}")
            return None
        try:
            await batch.check()
        except RunSpecialistError as error:
            await batch.aclose()
            self._say(f"refused: batch {batch_id} cannot run here: {error}; fix that and restart this worker")
            return None
        return batch

    def __getitem__(self, batch_id: str) -> BatchHere:
        """Return a batch that `usable` has returned before."""
        batch = self._known[batch_id]
        assert batch is not None  # noqa: S101 - only jobs of usable batches are taken
        return batch

    async def forget_all_but(self, kept: AbstractSet[str]) -> None:
        """Close the batches that have no more jobs."""
        for batch_id in [one for one in self._known if one not in kept]:
            batch = self._known.pop(batch_id)
            if batch is not None:
                await batch.aclose()

    async def aclose(self) -> None:
        """Close all batches."""
        await self.forget_all_but(set())

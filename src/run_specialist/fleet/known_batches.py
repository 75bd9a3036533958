"""The batches in the queue from the view of one worker: those that it can work on, and those that it has refused."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress

from run_specialist.errors import RunSpecialistError, StoreUnusable, UsageError
from run_specialist.fleet.batch_here import BatchHere
from run_specialist.fleet.queue import Queue
from run_specialist.fleet.queue_connection import QueueAway
from run_specialist.fleet.roots import Root
from run_specialist.fleet.worker_log import Log


def cannot_run(batch_id: str, error: Exception) -> str:
    """Return why a worker takes no items of a batch, in one line."""
    known = isinstance(error, RunSpecialistError)
    reason = str(error) if known else f"{type(error).__name__}: {' '.join(str(error).split())}"
    return f"batch {batch_id} cannot run here: {reason}; fix that and restart this worker"


class KnownBatches:
    """Opens each batch once, and checks that its runs can begin on this host."""

    def __init__(self, queue: Queue, url: str, roots: Mapping[str, Root], log: Log, *, trust: bool) -> None:
        """Start without batches; the parameters are those of `Worker`."""
        self._queue, self._url, self._roots, self._log, self._trust = queue, url, dict(roots), log, trust
        self._known: dict[str, BatchHere] = {}
        self.refused: dict[str, str] = {}
        """Why this worker takes no items of a batch, by its id."""

    async def usable(self, batch_id: str) -> BatchHere | None:
        """Return a batch that this worker can work on; otherwise print the reason once, and leave its items to others.

        Raises QueueAway.
        """
        if batch_id in self.refused:
            return None
        if batch_id not in self._known:
            opened = await self._opened(batch_id)
            if opened is None:
                return None
            self._known[batch_id] = opened
        return self._known[batch_id]

    def refuse(self, batch_id: str, reason: str) -> None:
        """Take no more items of a batch, which stay in the queue for other workers; say why, once."""
        if batch_id not in self.refused:
            self.refused[batch_id] = reason
            self._log(f"refused: {reason}", level="error")

    async def _opened(self, batch_id: str) -> BatchHere | None:
        batch: BatchHere | None = None
        try:
            content = await self._queue.frozen(batch_id)
            batch = BatchHere.found(batch_id, content, self._roots, self._url, trust=self._trust)
            await batch.check()
        except (QueueAway, StoreUnusable):
            raise
        except Exception as error:  # noqa: BLE001 - whatever is wrong with a batch must not cost the other batches
            if batch is None and isinstance(error, UsageError):
                self.refuse(batch_id, str(error))
            else:
                self.refuse(batch_id, cannot_run(batch_id, error))
            if batch is not None:
                await self._close(batch)
            return None
        return batch

    def __getitem__(self, batch_id: str) -> BatchHere:
        """Return a batch that `usable` has returned before."""
        return self._known[batch_id]

    async def forget_all_but(self, kept: AbstractSet[str]) -> None:
        """Close the batches that have no more jobs."""
        for batch_id in [one for one in self.refused if one not in kept]:
            del self.refused[batch_id]
        for batch_id in [one for one in self._known if one not in kept]:
            await self._close(self._known.pop(batch_id))

    @staticmethod
    async def _close(batch: BatchHere) -> None:
        # An error at the end of a batch must not end the worker.
        with suppress(Exception):
            await batch.aclose()

    async def aclose(self) -> None:
        """Close all batches."""
        await self.forget_all_but(set())

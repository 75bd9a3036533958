"""Periodic tasks of a worker: prune the log of the queue, and count for metrics."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

from run_specialist.errors import StoreUnusable
from run_specialist.fleet.control import statuses
from run_specialist.fleet.metrics import FleetMetrics, find_meter
from run_specialist.fleet.queue import Queue
from run_specialist.fleet.queue_connection import QueueAway

COUNT = 10.0
"""Interval at which batches are counted for metrics [s]."""
PRUNE = 600.0
"""Interval at which old entries of the log are deleted [s]."""

_log = logging.getLogger(__name__)


class Upkeep:
    """Runs beside the work of a worker, from `start` to `stop`."""

    def __init__(self, queue: Queue, at_work: Callable[[], int], refused: Callable[[], int] = lambda: 0) -> None:
        """Prepare the work.

        at_work: returns how many items the worker works on.
        refused: returns how many of its requests an endpoint has refused.
        """
        self._queue = queue
        meter = find_meter()
        self._metrics = None if meter is None else FleetMetrics(meter, at_work, refused)
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start, in a separate task."""
        self._task = asyncio.create_task(self._work())

    async def stop(self) -> None:
        """End, after a last count, so that a provider that exports at its shutdown reports the final state."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        with suppress(QueueAway, StoreUnusable):
            await self._count()

    async def _count(self) -> None:
        if self._metrics is None:
            return
        batches = await statuses(self._queue)
        ended = [one for name in self._metrics.gone(batches) for one in await statuses(self._queue, name)]
        self._metrics.update(batches, ended)

    async def _work(self) -> None:
        pruned = -PRUNE
        while True:
            now = asyncio.get_running_loop().time()
            try:
                if now - pruned >= PRUNE:
                    pruned = now
                    await self._queue.prune_log()
                await self._count()
            except (QueueAway, StoreUnusable) as error:
                # The worker says so when it looks for jobs itself.
                _log.debug("upkeep was postponed: %s", error)
            await asyncio.sleep(COUNT if self._metrics is not None else PRUNE)

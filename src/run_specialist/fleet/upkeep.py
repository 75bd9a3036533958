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

    def __init__(self, queue: Queue, at_work: Callable[[], int]) -> None:
        """Prepare the work.

        at_work: returns how many items the worker works on.
        """
        self._queue = queue
        meter = find_meter()
        self._metrics = None if meter is None else FleetMetrics(meter, at_work)
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start, in a separate task."""
        self._task = asyncio.create_task(self._work())

    async def stop(self) -> None:
        """End."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def _work(self) -> None:
        pruned = -PRUNE
        while True:
            now = asyncio.get_running_loop().time()
            try:
                if now - pruned >= PRUNE:
                    pruned = now
                    await self._queue.prune_log()
                if self._metrics is not None:
                    self._metrics.update(await statuses(self._queue))
            except (QueueAway, StoreUnusable) as error:
                # The worker says so when it looks for jobs itself.
                _log.debug("upkeep was postponed: %s", error)
            await asyncio.sleep(COUNT if self._metrics is not None else PRUNE)

"""The loop of a batch: begin items while there is room, and yield each as soon as it has ended."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from typing import Protocol

from run_specialist.batch.done import Done
from run_specialist.batch.item import Item
from run_specialist.errors import RunSpecialistError, UsageError
from run_specialist.record.outcome import Outcome


class ItemRun(Protocol):
    """The run of one item."""

    @property
    def run_id(self) -> str:
        """The id in the store and in the outcome."""
        ...

    async def outcome(self) -> Outcome:
        """Work until there is an outcome."""
        ...

    def abort(self) -> None:
        """Stop as soon as possible."""
        ...


Begin = Callable[[Item], Awaitable[ItemRun]]
"""Returns the run of an item, ready to be started."""


class Batch:
    """Asks a question about each of many items, a few at a time.

    async for done in batch:
        print(done.number, done.state)

    Memory is bounded by `at_once`, not by the number of items: they are read one by one.
    """

    def __init__(self, items: Iterable[Item], begin: Begin, *, at_once: int = 8) -> None:
        """Take the items; nothing begins before the first iteration.

        at_once: maximum number of items under way, at least 1.
        """
        if at_once < 1:
            raise UsageError(f"at_once must be at least 1, got {at_once}")
        self._items = items
        self._begin = begin
        self._at_once = at_once
        self._ended: asyncio.Queue[Done] = asyncio.Queue()
        self._under_way: dict[asyncio.Task[None], ItemRun | None] = {}

    async def __aiter__(self) -> AsyncIterator[Done]:
        """Yield each item as soon as it has ended, in the order of the ends."""
        items = iter(self._items)
        try:
            self._fill(items)
            while self._under_way or not self._ended.empty():
                yield await self._ended.get()
                self._fill(items)
        finally:
            await self._abort()

    def _fill(self, items: Iterator[Item]) -> None:
        while len(self._under_way) < self._at_once:
            item = next(items, None)
            if item is None:
                return
            self._under_way[asyncio.create_task(self._work(item))] = None

    async def _work(self, item: Item) -> None:
        """Work on an item; when its end is reported, it no longer counts as under way."""
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - a coroutine of a task
        try:
            run = self._under_way[task] = await self._begin(item)
            outcome = await run.outcome()
            done = Done(item, run.run_id, outcome, outcome.error)
        except RunSpecialistError as error:
            done = Done(item, "", error=str(error), without_run="failed")
        finally:
            del self._under_way[task]
        self._ended.put_nowait(done)

    async def _abort(self) -> None:
        """Stop all items under way and wait for their ends."""
        for task, run in [*self._under_way.items()]:
            if run is None:
                task.cancel()
            else:
                run.abort()
        if self._under_way:
            await asyncio.wait([*self._under_way])

"""The events of one run as they happen, for `async for`; the run never outlives whoever reads them."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Self

from run_specialist.errors import UsageError
from run_specialist.loop.run import Run
from run_specialist.record.events import Event
from run_specialist.record.outcome import Outcome

Prepare = Callable[[], Awaitable[Run]]
"""Makes a run that has not begun."""


class Stream:
    """A run to be read event by event; `Runner.stream` makes one.

    async with runner.stream("thoughts-analyzer", "Why SQLite?") as stream:
        async for event in stream:
            print(event.event)
    print(stream.outcome.answer)

    Leaving the block early, however that happens, aborts the run and waits for its end. A plain `async for` over a
    stream that nobody holds aborts too, a moment later. Events that are not read yet are kept: they are small, and
    no more than the budget of the run allows.
    """

    def __init__(self, prepare: Prepare) -> None:
        """Take what prepares the run; nothing happens before the block is entered, or the first event asked for.

        prepare: called once, e.g. `lambda: runner.resume("last")`.
        """
        self._prepare = prepare
        self._events: asyncio.Queue[Event | None] = asyncio.Queue()
        self._run: Run | None = None
        self._task: asyncio.Task[Outcome] | None = None
        self._starting = asyncio.Lock()

    @property
    def run(self) -> Run:
        """The run, once it has begun."""
        if self._run is None:
            raise UsageError("the run has not begun: enter `async with` first, or read the first event")
        return self._run

    @property
    def outcome(self) -> Outcome:
        """The outcome, once there is one: after the last event, and after the block however it was left."""
        outcome = self.run.ended
        if outcome is None:
            raise UsageError("the run has no outcome yet: read its events to the end, or leave the `async with` block")
        return outcome

    def abort(self) -> None:
        """Stop as soon as possible; the events go on to the last one."""
        self.run.abort()

    async def aclose(self) -> None:
        """Abort the run if it is not over, and wait for its end."""
        task = self._task
        if task is None:
            return
        if not task.done():
            self.run.abort()
            # A wait that is cancelled leaves the run alone: it is about to end.
            await asyncio.wait([task])
        if not task.cancelled() and (error := task.exception()):
            raise error

    async def __aenter__(self) -> Self:
        await self._started()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def __aiter__(self) -> AsyncIterator[Event]:
        """Yield each event as it happens, the last one with the outcome."""
        await self._started()
        try:
            while (event := await self._events.get()) is not None:
                yield event
            # Whoever asks once more is told the same.
            self._events.put_nowait(None)
        finally:
            await self.aclose()

    async def _started(self) -> None:
        # Two readers may come before the run is prepared; it is one run all the same.
        async with self._starting:
            if self._task is None:
                self._run = await self._prepare()
                self._run.listen(self._events.put_nowait)
                self._task = asyncio.create_task(self._run.outcome())
                self._task.add_done_callback(lambda _: self._events.put_nowait(None))

"""The events of one run as an asynchronous iterator; the run ends when the reader stops."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Self

from run_specialist.errors import UsageError
from run_specialist.loop.run import Run
from run_specialist.record.events import Event
from run_specialist.record.outcome import Outcome

Prepare = Callable[[], Awaitable[Run]]
"""Prepares a run without starting it."""


class Stream:
    """A run that yields its events; created by `Runner.stream`.

    async with runner.stream("thoughts-analyzer", "Why SQLite?") as stream:
        async for event in stream:
            print(event.event)
    print(stream.outcome.answer)

    Leaving the block early, also by an exception, aborts the run and waits for its end. Leaving an `async for` without
    a block also aborts the run, once the iterator is garbage-collected. Unread events are buffered without a bound:
    they are small, and the budget of the run limits their number.
    """

    def __init__(self, prepare: Prepare) -> None:
        """Create a stream; the run starts when the block is entered or the first event is read.

        prepare: called once, e.g. `lambda: runner.resume("last")`.
        """
        self._prepare = prepare
        self._events: asyncio.Queue[Event | None] = asyncio.Queue()
        self._run: Run | None = None
        self._task: asyncio.Task[Outcome] | None = None
        self._starting = asyncio.Lock()

    @property
    def run(self) -> Run:
        """The run; raises UsageError before it has started."""
        if self._run is None:
            raise UsageError("the run has not started; enter the `async with` block or read the first event first")
        return self._run

    @property
    def outcome(self) -> Outcome:
        """The outcome, available after the last event or after the block; raises UsageError before that."""
        outcome = self.run.ended
        if outcome is None:
            raise UsageError("the run has no outcome yet; read all events or leave the `async with` block first")
        return outcome

    def abort(self, *, after_turn: bool = False) -> None:
        """Stop the run as soon as possible; the remaining events, up to `finished`, can still be read.

        after_turn: complete the current turn first, as `Run.abort` describes.
        """
        self.run.abort(after_turn=after_turn)

    async def aclose(self) -> None:
        """Abort the run if it has not ended, and wait for its end."""
        task = self._task
        if task is None:
            return
        if not task.done():
            self.run.abort()
            # Cancelling this wait does not cancel the run, which is about to end.
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
            # A second iteration ends, too, instead of waiting forever.
            self._events.put_nowait(None)
        finally:
            await self.aclose()

    async def _started(self) -> None:
        # Concurrent readers share one run.
        async with self._starting:
            if self._task is None:
                self._run = await self._prepare()
                self._run.listen(self._events.put_nowait)
                self._task = asyncio.create_task(self._run.outcome())
                self._task.add_done_callback(lambda _: self._events.put_nowait(None))

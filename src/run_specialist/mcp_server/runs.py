"""The runs of a server: each belongs to the server and not to the request that began it."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from run_specialist.api.runner import Runner
from run_specialist.errors import UsageError
from run_specialist.loop.run import Run
from run_specialist.mcp_server.progress import Progress, ProgressUpdate
from run_specialist.mcp_server.store_location import StoreLocation
from run_specialist.record.events import Event
from run_specialist.record.outcome import Outcome

MOST_AT_WORK = 64
"""So many runs may be at work at once: what nobody waits for must not pile up."""
MOST_REMEMBERED = 256
"""Of so many runs that are over the outcome is at hand, also where nothing is stored."""
HEARTBEAT = 15.0
"""After so long without news a client hears that the run is still at work [s]."""

Tell = Callable[[ProgressUpdate], Awaitable[None]]
"""Passes one notification on to a client."""


class ServedRun:
    """One run from its preparation to its outcome."""

    def __init__(self, specialist: str) -> None:
        self.specialist = specialist
        self.progress = Progress()
        self.run: Run | None = None
        """None while it is prepared."""
        self.outcome: Outcome | None = None
        """None while it is at work."""
        self.failure: Exception | None = None
        """Why it could not begin."""
        self.task: asyncio.Task[None] | None = None
        self.is_prepared = asyncio.Event()
        """Set also when it cannot begin."""
        self._watchers: list[asyncio.Queue[ProgressUpdate | None]] = []

    @property
    def run_id(self) -> str:
        """What it is called; empty while it is prepared."""
        return self.run.run_id if self.run else ""

    @property
    def is_kept(self) -> bool:
        """True where it stands in a store."""
        return self.run is not None and self.run.is_kept

    def hear(self, event: Event) -> None:
        """Take an event of the run."""
        news = self.progress.take(event)
        if news is not None:
            self._tell(news)

    def abort(self) -> None:
        """Let it end soon, with what was gathered; one that is still prepared never begins."""
        if self.run is not None:
            self.run.abort()
        elif self.task is not None:
            self.task.cancel()

    async def over(self) -> None:
        """Wait for its end."""
        if self.task is not None:
            await asyncio.wait([self.task])

    def end(self) -> None:
        """Tell all who wait that there is no more to come."""
        self.is_prepared.set()
        self._tell(None)

    def _tell(self, news: ProgressUpdate | None) -> None:
        for watcher in self._watchers:
            watcher.put_nowait(news)

    async def follow(self, tell: Tell, seconds: float | None = None) -> None:
        """Pass its news on until it is over, or the time is.

        seconds: how long; None as long as it takes.
        """
        begun = time.monotonic()
        queue: asyncio.Queue[ProgressUpdate | None] = asyncio.Queue()
        self._watchers.append(queue)
        if self.task is not None and self.task.done():
            queue.put_nowait(None)
        try:
            while True:
                passed = time.monotonic() - begun
                left = HEARTBEAT if seconds is None else min(HEARTBEAT, seconds - passed)
                if left <= 0:
                    return
                try:
                    async with asyncio.timeout(left):
                        news = await queue.get()
                except TimeoutError:
                    # What came at that very moment was reckoned before, so it is told before.
                    late = not queue.empty()
                    news = queue.get_nowait() if late else self.progress.still(time.monotonic() - begun)
                if news is None:
                    return
                await tell(news)
        finally:
            self._watchers.remove(queue)


class Runs:
    """All runs that a server began and still knows."""

    def __init__(self, runner: Runner, location: StoreLocation) -> None:
        self._runner = runner
        self._location = location
        self._known: dict[str, ServedRun] = {}
        self._at_work: set[ServedRun] = set()
        self._is_closing = False

    def begin(self, specialist: str, question: str, settings: Mapping[str, Any]) -> ServedRun:
        """Begin a run; whether it can begin tells its `prepared`.

        Raises UsageError where no further one is taken on.
        """
        if self._is_closing:
            raise UsageError("the server is shutting down")
        if len(self._at_work) >= MOST_AT_WORK:
            raise UsageError(f"{MOST_AT_WORK} runs are at work already; wait for one of them, or cancel one")
        served = ServedRun(specialist)
        self._at_work.add(served)
        # A task of its own: a request that is cancelled must not tear the run apart, but let it end.
        served.task = asyncio.create_task(self._work(served, specialist, question, settings))
        return served

    def get(self, run_id: str) -> ServedRun | None:
        """Return a run that was begun here, by its whole id."""
        return self._known.get(run_id)

    async def close(self) -> None:
        """Take on no more, stop what is at work, and wait until it is stored."""
        self._is_closing = True
        tasks = [served.task for served in self._at_work if served.task]
        for served in [*self._at_work]:
            served.abort()
        if tasks:
            await asyncio.wait(tasks)

    async def _work(self, served: ServedRun, specialist: str, question: str, settings: Mapping[str, Any]) -> None:
        try:
            run = await self._runner.prepare(specialist, question, listener=served.hear, **settings)
            served.run = self._remember(served, run)
            served.is_prepared.set()
            served.outcome = self._location.hide_in(await run.outcome())
        except asyncio.CancelledError:
            # It may have struck when the run had just begun.
            ended = served.run.ended if served.run else None
            served.outcome = ended and self._location.hide_in(ended)
            served.failure = None if served.outcome else UsageError("it was cancelled before it began")
        except Exception as error:  # noqa: BLE001 - whatever it is, it is told to who asked
            served.failure = error
        finally:
            self._at_work.discard(served)
            served.end()

    def _remember(self, served: ServedRun, run: Run) -> Run:
        over = [run_id for run_id, one in self._known.items() if one.outcome or one.failure]
        for run_id in over[: max(len(self._known) - MOST_REMEMBERED + 1, 0)]:
            del self._known[run_id]
        self._known[run.run_id] = served
        return run


async def prepared(served: ServedRun) -> Run:
    """Wait until a run can begin; raises what `Runner.prepare` raises, and stops it when the wait is cancelled."""
    try:
        await served.is_prepared.wait()
    except asyncio.CancelledError:
        served.abort()
        raise
    if served.run is None:
        raise served.failure or UsageError("it was cancelled before it began")
    return served.run

"""The runs of a server; a run is independent of the request that started it."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from run_specialist.api.runner import Runner
from run_specialist.errors import UsageError
from run_specialist.loop.run import Run
from run_specialist.mcp_server.progress import ProgressReporter, ProgressUpdate
from run_specialist.mcp_server.store_location import StoreLocation
from run_specialist.record.events import Event
from run_specialist.record.outcome import Outcome

MOST_AT_WORK = 64
"""Maximum number of active runs, so that runs without a waiting client cannot pile up."""
MOST_REMEMBERED = 256
"""Number of ended runs whose outcome stays in memory, even if runs are not stored."""
HEARTBEAT = 15.0
"""Interval of keep-alive notifications while there is no other progress [s]."""

SendUpdate = Callable[[ProgressUpdate], Awaitable[None]]
"""Sends one progress notification to a client."""


class ServedRun:
    """A run of this server, from its preparation to its outcome."""

    def __init__(self, specialist: str) -> None:
        self.specialist = specialist
        self.progress = ProgressReporter()
        self.run: Run | None = None
        """None during preparation."""
        self.outcome: Outcome | None = None
        """None until the run has ended."""
        self.failure: Exception | None = None
        """The error that prevented the start or the outcome."""
        self.task: asyncio.Task[None] | None = None
        self.is_prepared = asyncio.Event()
        """Also set if the preparation failed."""
        self._followers: list[asyncio.Queue[ProgressUpdate | None]] = []

    @property
    def run_id(self) -> str:
        """The id of the run; empty during preparation."""
        return self.run.run_id if self.run else ""

    @property
    def is_kept(self) -> bool:
        """Whether the run is stored."""
        return self.run is not None and self.run.is_kept

    def on_event(self, event: Event) -> None:
        """Pass the progress of an event on to all followers."""
        update = self.progress.take(event)
        if update is not None:
            self._publish(update)

    def abort(self) -> None:
        """End the run soon, with its findings; a run in preparation does not start."""
        if self.run is not None:
            self.run.abort()
        elif self.task is not None:
            self.task.cancel()

    async def wait_ended(self) -> None:
        """Wait for the end of the run."""
        if self.task is not None:
            await asyncio.wait([self.task])

    def end(self) -> None:
        """Release all followers after the end of the run."""
        self.is_prepared.set()
        self._publish(None)

    def _publish(self, update: ProgressUpdate | None) -> None:
        for follower in self._followers:
            follower.put_nowait(update)

    async def follow(self, send: SendUpdate, seconds: float | None = None) -> None:
        """Send progress until the run ends or the timeout expires.

        seconds: the timeout; None waits for the end of the run.
        """
        begun = time.monotonic()
        queue: asyncio.Queue[ProgressUpdate | None] = asyncio.Queue()
        self._followers.append(queue)
        if self.task is not None and self.task.done():
            queue.put_nowait(None)
        try:
            while True:
                elapsed = time.monotonic() - begun
                timeout = HEARTBEAT if seconds is None else min(HEARTBEAT, seconds - elapsed)
                if timeout <= 0:
                    return
                try:
                    async with asyncio.timeout(timeout):
                        update = await queue.get()
                except TimeoutError:
                    # An update that arrived with the timeout has a lower progress value, so it must be sent first.
                    has_update = not queue.empty()
                    update = queue.get_nowait() if has_update else self.progress.still(time.monotonic() - begun)
                if update is None:
                    return
                await send(update)
        finally:
            self._followers.remove(queue)


class ServedRuns:
    """The active runs of a server, and those that ended recently."""

    def __init__(self, runner: Runner, location: StoreLocation) -> None:
        self._runner = runner
        self._location = location
        self._known: dict[str, ServedRun] = {}
        self._active: set[ServedRun] = set()
        self._is_closing = False

    def begin(self, specialist: str, question: str, settings: Mapping[str, Any]) -> ServedRun:
        """Start a run in the background; await `prepared` to learn whether it could start.

        Raises UsageError if the server is shutting down or too many runs are active.
        """
        if self._is_closing:
            raise UsageError("the server is shutting down")
        if len(self._active) >= MOST_AT_WORK:
            raise UsageError(f"{MOST_AT_WORK} runs are at work already; wait for one of them, or cancel one")
        served = ServedRun(specialist)
        self._active.add(served)
        # A separate task: cancelling the request must not cancel the run in the middle of its work.
        served.task = asyncio.create_task(self._execute(served, specialist, question, settings))
        return served

    def get(self, run_id: str) -> ServedRun | None:
        """Return a run of this server by its full id; None if it is not known."""
        return self._known.get(run_id)

    async def close(self) -> None:
        """Reject new runs, abort the active ones, and wait until they are stored."""
        self._is_closing = True
        tasks = [served.task for served in self._active if served.task]
        for served in [*self._active]:
            served.abort()
        if tasks:
            await asyncio.wait(tasks)

    async def _execute(self, served: ServedRun, specialist: str, question: str, settings: Mapping[str, Any]) -> None:
        try:
            run = await self._runner.prepare(specialist, question, listener=served.on_event, **settings)
            served.run = self._remember(served, run)
            served.is_prepared.set()
            served.outcome = self._location.hide_in(await run.outcome())
        except asyncio.CancelledError:
            # The run may have started and ended just before the cancellation.
            ended = served.run.ended if served.run else None
            served.outcome = ended and self._location.hide_in(ended)
            served.failure = None if served.outcome else UsageError("it was cancelled before it began")
        except Exception as error:  # noqa: BLE001 - returned to the client as an error result
            served.failure = error
        finally:
            self._active.discard(served)
            served.end()

    def _remember(self, served: ServedRun, run: Run) -> Run:
        ended = [run_id for run_id, one in self._known.items() if one.outcome or one.failure]
        for run_id in ended[: max(len(self._known) - MOST_REMEMBERED + 1, 0)]:
            del self._known[run_id]
        self._known[run.run_id] = served
        return run


async def prepared(served: ServedRun) -> Run:
    """Wait until a run has started, and return it; abort the run if the wait is cancelled.

    Raises the exceptions of `Runner.prepare`.
    """
    try:
        await served.is_prepared.wait()
    except asyncio.CancelledError:
        served.abort()
        raise
    if served.run is None:
        raise served.failure or UsageError("it was cancelled before it began")
    return served.run

"""Runs that clients of the MCP server start: their progress, and stored runs by id."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from run_specialist import budget as units
from run_specialist.api.runner import Runner
from run_specialist.budget import Kind
from run_specialist.errors import RunNotFound, StoreMissing, UsageError
from run_specialist.loop.run import Run
from run_specialist.record import events
from run_specialist.record.outcome import Outcome
from run_specialist.store.location import NONE, file_of, place, shown
from run_specialist.store.writer import Writer

SHOWN = 60
"""Maximum length of a tool call's argument in a message [characters]."""
# Minimum increase of the progress value: MCP requires that it increases with each notification.
_MIN_STEP = 0.001


@dataclass(frozen=True, slots=True)
class ProgressUpdate:
    """One progress notification."""

    progress: float
    """Usage of the limit closest to exhaustion, scaled to `total`."""
    total: float | None
    """The limit; None without limits."""
    message: str


class ProgressReporter:
    """Converts the events of a run to progress notifications."""

    def __init__(self) -> None:
        self.latest = ProgressUpdate(0, None, "starting")
        """The last notification."""
        self.tool_calls = 0
        """Number of tool calls, without those of child runs."""
        self._total: float | None = None
        self._last_progress = -_MIN_STEP
        self._call = ""
        self._children: dict[str, ProgressReporter] = {}

    def take(self, event: events.Event) -> ProgressUpdate | None:
        """Return the notification for an event; None if the event is not reported."""
        used, message = 0.0, None
        match event:
            case events.Started():
                self._total = next((limit for limit in event.limits.values() if limit is not None), None)
                limits = (units.amount(Kind(kind), limit) for kind, limit in event.limits.items() if limit is not None)
                budget = ", ".join(limits) or "no limit"
                message = f"{event.specialist} started on {event.model} · {budget} · run {event.run_id}"
            case events.Called() if event.phase in {"finished", "failed"}:
                # Reported with the next event, which contains the remaining budget.
                self.tool_calls += 1
                text = next((one for one in (event.arguments or {}).values() if isinstance(one, str)), "")
                line = " ".join(text.split())
                asked = f": '{line[:SHOWN]}{'…' if len(line) > SHOWN else ''}'" if line else ""
                self._call = f"{event.name}{' failed' if event.phase == 'failed' else ''}{asked}"
            case events.BudgetSpent():
                kind, used = Kind(event.kind), event.used
                usage = f"{units.amount(kind, used)} used"
                if event.limit is not None and event.remaining is not None:
                    usage = f"{units.number(kind, used)} of {units.of(kind, event.limit)} used"
                    usage += f", {units.number(kind, event.remaining)} remaining"
                    if self._total is not None and event.limit != self._total:
                        # Of another kind than that of the total, the same share of the total.
                        used = self._total * (used / event.limit if event.limit else 1)
                message = f"{self._call} · {usage}" if self._call else usage
            case events.Landed():
                message = f"the limit of {event.reason.label} is reached: landing, it must answer now"
            case events.Retrying():
                message = f"{event.reason} · retry {event.attempt} in {event.seconds:.1f} s"
            case events.Waiting() if event.phase == "started":
                message = f"waiting{'' if event.seconds is None else f' {event.seconds:.0f} s'} · {event.reason}"
            case events.Finished():
                calls = units.amount(Kind.TOOL_CALLS, event.outcome.tool_calls.used)
                message = f"{event.outcome.status} after {calls}"
            case events.ChildTold():
                update = self._children.setdefault(event.run_id, ProgressReporter()).take(event.told)
                message = None if update is None else f"{event.specialist}: {update.message}"
        return None if message is None else self._update(used, message)

    def still(self, seconds: float) -> ProgressUpdate:
        """Return a keep-alive notification, which prevents a timeout of the client.

        seconds: since the start of the request.
        """
        before = self.latest
        after = self._update(0, f"{before.message} · still at work, {seconds:.0f} s")
        self.latest = replace(after, message=before.message)
        return after

    def _update(self, used: float, message: str) -> ProgressUpdate:
        progress = self._last_progress = round(max(used, self._last_progress + _MIN_STEP), 3)
        total = None if self._total is None else max(self._total, progress)
        self.latest = ProgressUpdate(progress, total, message)
        return self.latest


class StoreLocation:
    """Replaces the path or URL of the store in texts for clients."""

    def __init__(self, store: str | None) -> None:
        """Set the store, as the `store` argument of `Runner`."""
        url = place(store).url
        file = file_of(url)
        self._names = [] if url == NONE else [url, shown(url)]
        if file is not None and file.parent != Path(file.anchor):
            # Errors also contain the folder, and files next to the store.
            self._names.append(str(file.parent))

    def hide(self, text: str) -> str:
        """Return a text without the location of the store."""
        for name in self._names:
            text = text.replace(name, "the store")
        return text

    def hide_in(self, outcome: Outcome) -> Outcome:
        """Return an outcome without the location of the store in its warnings and error."""
        warnings = tuple(map(self.hide, outcome.warnings))
        return replace(outcome, warnings=warnings, error=outcome.error and self.hide(outcome.error))


MOST_AT_WORK = 64
"""Maximum number of active runs, so that runs without a waiting client cannot pile up."""
MOST_REMEMBERED = 256
"""Number of ended runs whose outcome stays in memory, even if runs are not stored."""
HEARTBEAT = 15.0
"""Interval of keep-alive notifications while there is no other progress [s]."""

SendUpdate = Callable[[ProgressUpdate], Awaitable[None]]
"""Sends one progress notification to a client."""


@dataclass(frozen=True)
class RunStatus:
    """How a run stands."""

    run_id: str
    specialist: str
    status: str
    """As listed by `specialists runs`: `running` while its process is alive, `interrupted` if the process has died."""
    tool_calls: int
    outcome: Outcome | None
    began: float
    """Start time [seconds since 1970]."""
    changed: float
    """Time of the last known change [seconds since 1970]."""
    progress: str | None = None
    """What it did last; None if this server does not know."""
    is_kept: bool = True
    """Whether the run is stored."""


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
        self._began = self._changed = time.time()
        self._followers: list[asyncio.Queue[ProgressUpdate | None]] = []

    async def prepared(self) -> Run:
        """Wait until the run has started, and return it; abort the run if the wait is cancelled.

        Raises the exceptions of `Runner.prepare`.
        """
        try:
            await self.is_prepared.wait()
        except asyncio.CancelledError:
            self.abort()
            raise
        if self.run is None:
            raise self.failure or UsageError("it was cancelled before it began")
        return self.run

    def status(self) -> RunStatus:
        """Return how the run stands; raises UsageError if it failed without an outcome."""
        ended = self.outcome
        if self.run is None or (self.failure is not None and ended is None):
            raise UsageError(f"the run broke off: {self.failure}")
        status, used = ("running", self.progress.tool_calls) if ended is None else (ended.status, ended.tool_calls.used)
        times, progress = (self._began, self._changed), self.progress.latest.message
        return RunStatus(self.run.run_id, self.specialist, status, used, ended, *times, progress, self.run.is_kept)

    def on_event(self, event: events.Event) -> None:
        """Pass the progress of an event on to all followers."""
        update = self.progress.take(event)
        if update is not None:
            self.publish(update)

    def abort(self) -> None:
        """End the run soon, with its findings; a run in preparation does not start."""
        if self.run is not None:
            self.run.abort()
        elif self.task is not None:
            self.task.cancel()

    def publish(self, update: ProgressUpdate | None) -> None:
        """Send an update to all followers; None releases them after the end of the run."""
        self._changed = time.time()
        for follower in self._followers:
            follower.put_nowait(update)

    async def follow(self, send: SendUpdate, seconds: float = inf) -> None:
        """Send progress until the run ends or the timeout [s] expires."""
        begun = time.monotonic()
        queue: asyncio.Queue[ProgressUpdate | None] = asyncio.Queue()
        self._followers.append(queue)
        if self.task is not None and self.task.done():
            queue.put_nowait(None)
        try:
            while (timeout := min(HEARTBEAT, begun + seconds - time.monotonic())) > 0:
                try:
                    async with asyncio.timeout(timeout):
                        update = await queue.get()
                except TimeoutError:
                    # An update that arrived with the timeout has a lower progress value, so it must be sent first.
                    update = queue.get_nowait() if queue.qsize() else self.progress.still(time.monotonic() - begun)
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
        self.known: dict[str, ServedRun] = {}
        """Runs of this server by their full id."""
        self._active: set[ServedRun] = set()
        self._is_closing = False

    def begin(
        self, specialist: str, question: str, settings: Mapping[str, Any], run_id: str | None = None
    ) -> ServedRun:
        """Start a run in the background; await its `prepared` to learn whether it could start.

        run_id: a stored run that the question continues; None for a new run.
        Raises UsageError if the server is shutting down or too many runs are active.
        """
        if self._is_closing:
            raise UsageError("the server is shutting down")
        if len(self._active) >= MOST_AT_WORK:
            raise UsageError(f"{MOST_AT_WORK} runs are at work already; wait for one of them, or cancel one")
        served = ServedRun(specialist)
        self._active.add(served)
        # A separate task: cancelling the request must not cancel the run in the middle of its work.
        served.task = asyncio.create_task(self._execute(served, run_id, question, settings))
        return served

    async def close(self) -> None:
        """Reject new runs, abort the active ones, and wait until they are stored."""
        self._is_closing = True
        tasks = [served.task for served in self._active if served.task]
        for served in [*self._active]:
            served.abort()
        if tasks:
            await asyncio.wait(tasks)

    async def _execute(self, served: ServedRun, run_id: str | None, question: str, settings: Mapping[str, Any]) -> None:
        call = self._runner.prepare if run_id is None else self._runner.resume
        try:
            run = await call(run_id or served.specialist, question, listener=served.on_event, **settings)
            served.run = run
            ended = [known for known, one in self.known.items() if one.outcome or one.failure]
            for known in ended[: max(len(self.known) - MOST_REMEMBERED + 1, 0)]:
                del self.known[known]
            self.known[run.run_id] = served
            served.is_prepared.set()
            served.outcome = self._location.hide_in(await run.outcome())
        except asyncio.CancelledError:
            # The run may have started and ended just before the cancellation.
            outcome = served.run.ended if served.run else None
            served.outcome = outcome and self._location.hide_in(outcome)
            served.failure = None if served.outcome else UsageError("it was cancelled before it began")
        except Exception as error:  # noqa: BLE001 - returned to the client as an error result
            served.failure = error
        finally:
            self._active.discard(served)
            served.is_prepared.set()
            served.publish(None)


def check_store(store: str | None) -> None:
    """Raise StoreUnusable if a named store cannot be used; a default store is not checked."""
    found = place(store)
    if found.named and found.url != NONE:
        writer = Writer(found)
        try:
            writer.check()
        finally:
            writer.close()


def past_run(store: str | None, run_id: str, project: str) -> RunStatus:
    """Return a stored run by its full id; prefixes and suggestions would reveal other runs to the client.

    store: the `store` argument of `Runner`.
    project: path of the project; runs of others may have read files that the client must not see.
    Raises RunNotFound or StoreUnusable.
    """
    url = place(store).url
    if url == NONE:
        raise RunNotFound(f"no run {run_id} is known here, and this server stores none")
    from run_specialist.store.reader import Store  # noqa: PLC0415 - a database library

    try:
        with Store(url) as opened:
            found = [one for one in opened.runs(ids=[run_id]) if (one.run_id, one.project) == (run_id, project)]
            if not found:
                raise RunNotFound(f"no run {run_id} is known here; give the whole run_id as start_run returned it")
            run = opened.load(run_id)
    except StoreMissing:
        raise RunNotFound(f"no run {run_id} is known here") from None
    outcome = None if run.outcome is None else TypeAdapter(Outcome).validate_python(dict(run.outcome))
    times = (found[0].started_at, found[0].ended_at or found[0].started_at)
    return RunStatus(run.run_id, run.specialist, run.status, run.tool_calls, outcome, *times)

"""Run a batch for `specialists map`: signals, the reducing question, the summary."""

import asyncio
import hashlib
import os
import shlex
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext, redirect_stdout
from dataclasses import dataclass
from decimal import ROUND_UP, Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TextIO

from run_specialist.api.event_loop import with_bounded_cleanup
from run_specialist.batch.answer_file import AnswerFolder, folder_for
from run_specialist.budget import dollars
from run_specialist.cli.ask import answer
from run_specialist.cli.console import OutputFile, print_json, say
from run_specialist.cli.flags import OutputSettings
from run_specialist.cli.map_progress import ItemLines, MapProgress, by_state, counted, duration
from run_specialist.errors import UsageError, with_flags
from run_specialist.record.outcome import Exit

if TYPE_CHECKING:
    from run_specialist.api.run_maker import EndedRun
    from run_specialist.api.runner import Runner
    from run_specialist.batch.batch import Batch
    from run_specialist.batch.item import BatchEvent, Done
    from run_specialist.cli.map_progress import MapView
    from run_specialist.loop.run import Run
    from run_specialist.providers.base import Watch
    from run_specialist.record.events import Event, Listener
    from run_specialist.record.outcome import Outcome
    from run_specialist.specialist.loader import SpecialistFile


class RowWriter(Protocol):
    """The output for the rows of answers."""

    def write(self, done: "Done") -> object:
        """Write the row of an item; raises OSError or UsageError."""
        ...


@dataclass(frozen=True)
class MapDisplay:
    """What the command displays while it works."""

    events: bool
    live: bool
    """Whether there is a live view."""
    lines: bool
    """Whether lines about items are printed instead of the live view."""
    answers: bool
    """Whether the view shows the beginning of each answer."""
    noun: str = "item"
    """The name of an item in the lines and in the view."""


class MapWorker:
    """Runs a batch, once."""

    def __init__(self, batch: "Batch", rows: Sequence[RowWriter], shown: MapDisplay) -> None:
        """Prepare the work.

        rows: receives each ended item.
        """
        self.batch = batch
        self.progress = MapProgress()
        self.interrupts = Interrupts(batch, self._notify)
        self._rows = rows
        self._shown = shown
        self._out: TextIO | None = sys.stdout
        self._view = self._live_view() if shown.live else None
        self._lines = ItemLines(batch, self.progress, say, shown.noun) if shown.lines else None
        self._error: OSError | UsageError | None = None
        """The error that ended the output."""

    def work(self, runner: "Runner") -> None:
        """Work until the batch ends, then close the runner.

        Raises OSError or UsageError if rows or events cannot be written; the runs are stopped and stored first.
        """
        self.batch.listen(self._hear_batch)
        self.batch.listen_runs(self._hear_run)

        async def once() -> None:
            async with runner:
                self.interrupts.handle()
                async for done in self.batch:
                    self._end(done)

        # Prints of tools and their modules must not mix with the rows or the events.
        with self._view.live if self._view else nullcontext(), redirect_stdout(sys.stderr):
            asyncio.run(with_bounded_cleanup(once()))
        if self._error:
            raise self._error

    def _live_view(self) -> "MapView":
        from run_specialist.cli.map_progress import MapView  # noqa: PLC0415 - only a terminal needs it

        return MapView(self.batch, self.progress, answers=self._shown.answers, noun=self._shown.noun)

    def _end(self, done: "Done") -> None:
        self.progress.end(done)
        if self._error is None:
            self._guarded(lambda: self._write(done))
        if self._view:
            self._view.end(done)
        if self._lines:
            self._lines.end(done)

    def _write(self, done: "Done") -> None:
        for rows in self._rows:
            rows.write(done)

    def _hear_run(self, number: int, event: "Event") -> None:
        self.progress.hear(number, event)
        if self._shown.events:
            self._print({"item": number, **event.as_json()})

    def _hear_batch(self, event: "BatchEvent") -> None:
        self.progress.hear_batch(event, self.batch.under_way)
        if event.event == "batch_paused" and not self._view:
            self._notify(f"paused: {self.batch.problem}")
        if self._shown.events:
            self._print(event.as_json())

    def _notify(self, line: str) -> None:
        if self._view:
            self._view.notice = line
        elif self._lines:
            say(line)

    def _print(self, value: object) -> None:
        if self._error is None and self._out is not None:
            self._guarded(lambda: print_json(value, None, self._out))

    def _guarded(self, write: Callable[[], None]) -> None:
        """Write; if that fails, stop the batch. Its runs stay stored."""
        try:
            write()
        except (OSError, UsageError) as error:
            self._error = error
            self.batch.stop(now=True)


_SHOW_CURSOR = b"\r\n\x1b[?7h\x1b[?25h"
"""Terminal codes that the live view would write at its end: restore line wrapping and show the cursor."""


class Interrupts:
    """Ends a batch on signals."""

    def __init__(self, batch: "Batch", notify: Callable[[str], None]) -> None:
        """Prepare to stop a batch.

        notify: called with a line to show.
        """
        self._batch = batch
        self._notify = notify
        self.count = 0
        """Number of signals received."""

    def handle(self) -> None:
        """Install the signal handlers in the running event loop."""
        loop = asyncio.get_running_loop()
        # Closing the terminal ends the batch, unless `nohup` ignores the signal.
        hang_up = getattr(signal, "SIGHUP", None)
        hang_ups = [] if hang_up is None or signal.getsignal(hang_up) is signal.SIG_IGN else [hang_up]
        for number in (signal.SIGINT, signal.SIGTERM, *hang_ups):
            loop.add_signal_handler(number, self._interrupt, loop)

    def _interrupt(self, loop: asyncio.AbstractEventLoop) -> None:
        self.count += 1
        if self.count == 1:
            self._batch.stop()
            turns = self._batch.counts.under_way
            doing = f"finishing {counted(turns, 'turn')}" if turns else "stopping"
            self._notify(f"{doing}; Ctrl-C again to stop immediately")
            return
        # The next one ends the program, even if a tool ignores that it is cancelled; what was paid is stored.
        loop.remove_signal_handler(signal.SIGINT)
        signal.signal(signal.SIGINT, _exit)
        self._notify("stopping immediately")
        self._batch.stop(now=True)


def _exit(*_: object) -> None:
    if sys.stderr is not None and sys.stderr.isatty():
        os.write(sys.stderr.fileno(), _SHOW_CURSOR)
    os._exit(Exit.INTERRUPTED)


RESUMED = ("failed", "aborted")
"""Statuses of earlier runs about the same answers that are resumed."""


@dataclass(frozen=True)
class Reducer:
    """A specialist, and a function that makes a runner whose root is the folder with the answers."""

    file: "SpecialistFile"
    make_runner: Callable[[Path], "Runner"]


class Answers:
    """The answers of a batch as files in a folder."""

    def __init__(self, reducer: Reducer, batch_id: str, *, is_stored: bool) -> None:
        """Create an empty folder; raises OSError."""
        self._reducer = reducer
        self._batch_id = batch_id
        self._is_stored = is_stored
        self._folder = AnswerFolder(folder_for(batch_id, is_stored=is_stored))

    @property
    def folder(self) -> Path:
        """The folder of the files."""
        return self._folder.folder

    def write(self, done: "Done") -> None:
        """Write the file of an item; raises OSError."""
        self._folder.add(done)

    def reduce(self, specialist: str, asked: str | None, *, shown: bool, quiet: bool) -> "Outcome":
        """Ask the specialist about all answers and return its outcome; a repeated call is not paid for twice.

        specialist, asked: as for `AnswerFolder.finish`.
        shown: whether to show the run and print its answer.
        """
        question = self._folder.finish(specialist, asked)
        runner = self._reducer.make_runner(self.folder)
        run_id = f"{self._batch_id}-reduced-{self._digest()}" if self._is_stored else None

        async def prepare(*, listener: "Listener | None", watch: "Watch | None") -> "Run | EndedRun":
            path = str(self._reducer.file.path)
            if run_id is None:
                return await runner.prepare(path, question, paths=None, listener=listener, watch=watch)
            return await runner.take_up(
                run_id, path, question, paths=None, retry=RESUMED, listener=listener, watch=watch
            )

        async def once() -> "Outcome":
            async with runner:
                run = await prepare(listener=None, watch=None)
                return await run.outcome()

        if not shown:
            return asyncio.run(with_bounded_cleanup(once()))
        return answer(
            runner, prepare, OutputSettings(json=False, events=False, quiet=quiet, raw=False, file=OutputFile(None))
        )

    def _digest(self) -> str:
        """Return 16 hexadecimal digits that depend on the files."""
        digest = hashlib.sha256()
        for path in sorted(self.folder.glob("*.md")):
            digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
        return digest.hexdigest()[:16]


ROOM = 1.1
"""Factor between the expected cost and a suggested limit: an item begins only if the rest covers a typical one."""


@dataclass(frozen=True)
class SameCall:
    """The command line of this call, from which follow-up commands are built."""

    words: Sequence[str]
    """The arguments after `specialists map`."""

    def __str__(self) -> str:
        return shlex.join(["specialists", "map", *_without_passwords(self.words)])

    def retrying(self, state: str) -> str:
        """Return the command that also resumes the runs that ended in a given state."""
        return self._with("--retry", state)

    def with_limit(self, limit: str) -> str:
        """Return the command with another cost limit."""
        return self._with("--cost-limit", limit)

    def _with(self, option: str, value: str) -> str:
        kept, skip = [], False
        for word in self.words:
            if not skip and word != option and not word.startswith(f"{option}="):
                kept.append(word)
            skip = word == option
        return shlex.join(["specialists", "map", *_without_passwords(kept), option, value])


def _rounded_up(amount: float) -> str:
    """Return an amount with two significant digits, e.g. `0.053`, `5.3` or `5300` [USD]."""
    # 1.1 is a little more in binary, and must not become 1.2.
    exact = Decimal(f"{amount:.12g}")
    return f"{exact.quantize(Decimal(1).scaleb(exact.adjusted() - 1), rounding=ROUND_UP):f}"


def _without_passwords(words: Sequence[str]) -> list[str]:
    from run_specialist.store.location import shown  # noqa: PLC0415 - fast `--help`

    return [shown(word) if "://" in word else word for word in words]


def reason_of(batch: "Batch", noun: str = "item") -> str | None:
    """Return why some items were not asked about; None if all were, or if the caller stopped the batch.

    noun: the name of an item in the text.
    """
    because = batch.ended_because
    if because in {None, "stopped"} or not batch.counts.not_run:
        return None
    limit = batch.cost_limit
    if because == "cost_limit" and limit is not None:
        return f"ended early: the cost limit of {dollars(limit)} leaves too little for another {noun}"
    problem = batch.problem
    return f"ended early: {with_flags(problem) if problem else str(because).replace('_', ' ')}"


@dataclass(frozen=True)
class MapSummary:
    """A batch that has ended, and the place of its answers."""

    batch: "Batch"
    progress: MapProgress
    specialist: str
    call: SameCall
    out: Path | None
    """The file of the answers; None = this call writes none."""
    is_written: bool
    """Whether the answers were written to any output."""
    is_stored: bool

    def lines(self) -> Iterator[tuple[str, str | None]]:
        """Yield the lines to print, each with the command in it that must not be wrapped, if any."""
        counts, batch = self.batch.counts, self.batch
        total = counts.done + counts.not_run if counts.total is None else counts.total
        yield f"{counted(total)} for {self.specialist}: {', '.join(by_state(counts)) or 'none'}", None
        yield " · ".join(self._figures()), None
        if reason := self.reason:
            yield reason, None
        if self.is_stored and (unstored := self.batch.unstored):
            runs = f"{counted(unstored, 'run')} {'is' if unstored == 1 else 'are'} not stored"
            kept = self.out is not None and self.out.suffix.lower() != ".csv"
            rest = f"their answers are in {self.out}, and are used from there" if kept else "they would be paid again"
            yield f"{runs}: free disk space, or check the store, before you repeat the command; {rest}", None
        yield from self._answers()
        yield from self._next()
        if self.is_stored:
            page = f"specialists report {batch.id}"
            yield f"batch {batch.id}; its page: {page}", page

    def _figures(self) -> Iterator[str]:
        progress = self.progress
        if progress.spent is None:
            yield "price unknown"
        elif progress.spent:
            now = progress.new_cost
            part = f", {dollars(now)} of it now" if now and progress.earlier else ""
            limit = "" if self.batch.cost_limit is None else f" of at most {dollars(self.batch.cost_limit)}"
            yield f"{dollars(progress.spent)}{limit}{part}"
        yield duration(progress.seconds)
        if progress.seconds_paused >= 1:
            yield f"paused for {duration(progress.seconds_paused)} of it"
        if progress.earlier:
            yield f"{counted(progress.earlier, 'outcome')} of earlier calls, not paid again"

    @property
    def reason(self) -> str | None:
        """Why some items were not asked about; None if all were."""
        return reason_of(self.batch)

    def _answers(self) -> Iterator[tuple[str, str | None]]:
        if self.out is not None:
            if self.out.exists():
                yield f"answers: {self.out}", None
        elif self.is_stored and not self.is_written:
            yield "the answers are stored; the same command with --out FILE writes them at no cost", None

    def _next(self) -> Iterator[tuple[str, str | None]]:
        counts = self.batch.counts
        if not self.is_stored:
            return
        if self.batch.ended_because == "cost_limit":
            yield from self._next_limit()
        elif (counts.not_run or counts.aborted) and self.batch.ended_because != "fleet":
            command = str(self.call)
            yield f"to continue: {command}", command
        if counts.failed:
            command = self.call.retrying("failed")
            yield f"to retry the failed: {command}", command

    def _next_limit(self) -> Iterator[tuple[str, str | None]]:
        """Yield a line with a sufficient cost limit, from the mean cost of the items so far."""
        counts, spent = self.batch.counts, self.progress.spent
        if not spent or not counts.done:
            yield "to continue, raise --cost-limit", None
            return
        needed = spent * (counts.done + counts.not_run) / counts.done
        command = self.call.with_limit(_rounded_up(max(needed, self.batch.cost_limit or 0.0) * ROOM))
        yield f"to continue with a higher limit: {command}", command

    def as_json(self, reduced: "Outcome | None" = None) -> dict[str, Any]:
        """Return the summary as JSON values."""
        counts = self.batch.counts
        return {
            "batch": self.batch.id,
            "specialist": self.specialist,
            "items": counts.done + counts.not_run if counts.total is None else counts.total,
            "counts": {
                "answered": counts.answered,
                "landed": counts.landed,
                "partial": counts.partial,
                "failed": dict(counts.failed),
                "aborted": counts.aborted,
                "at_work_elsewhere": counts.at_work_elsewhere,
                "not_run": counts.not_run,
            },
            "earlier": self.progress.earlier,
            "cost_usd": None if self.progress.spent is None else round(self.progress.spent, 8),
            "duration_s": round(self.progress.seconds, 3),
            "ended_because": self.batch.ended_because,
            "problem": self.batch.problem,
            "not_stored": self.batch.unstored if self.is_stored else 0,
            "out": None if self.out is None else str(self.out),
            "reduced": None if reduced is None else reduced.as_json(),
        }

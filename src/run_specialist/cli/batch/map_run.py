"""Run a batch for `specialists map`: write rows, show the progress, print events, stop on signals."""

import asyncio
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext, redirect_stdout
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TextIO

from run_specialist.api.shutdown import with_bounded_cleanup
from run_specialist.cli.batch.map_lines import ItemLines
from run_specialist.cli.batch.map_progress import MapProgress
from run_specialist.cli.batch.map_signals import Interrupts
from run_specialist.cli.console import print_json, say
from run_specialist.errors import UsageError

if TYPE_CHECKING:
    from run_specialist.api.runner import Runner
    from run_specialist.batch.batch import Batch
    from run_specialist.batch.batch_events import BatchEvent
    from run_specialist.batch.done import Done
    from run_specialist.cli.batch.map_live import MapView
    from run_specialist.record.events import Event


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
        from run_specialist.cli.batch.map_live import MapView  # noqa: PLC0415 - only a terminal needs it

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

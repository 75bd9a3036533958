"""Run a batch in the terminal, for `map` and `eval`: progress, lines, the live view, signals."""

import asyncio
import math
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, redirect_stdout
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from run_specialist.api.event_loop import with_bounded_cleanup
from run_specialist.budget import Kind, amount, counted, dollars
from run_specialist.cli.console import is_terminal, one_line, print_json, say
from run_specialist.cli.live import RunningTotal, call_text, live_lines
from run_specialist.cli.tables import STATUSES, duration_words
from run_specialist.errors import UsageError, with_flags
from run_specialist.record.events import Called, ChildTold, Event, Requested, Retrying
from run_specialist.record.outcome import Exit
from run_specialist.views.page import total

if TYPE_CHECKING:
    from run_specialist.api.runner import Runner
    from run_specialist.batch.batch import Batch
    from run_specialist.batch.item import BatchEvent, Counts, Done


TELLING = 5
"""Minimum number of ended items for a forecast."""


@dataclass
class RunningItem:
    """A running item."""

    doing: str = "starting"
    total: RunningTotal = field(default_factory=RunningTotal)


class MapProgress:
    """Follows the events of a batch; a view reads its figures, possibly from another thread."""

    def __init__(self, batch: "Batch", noun: str = "item", clock: Callable[[], float] = time.monotonic) -> None:
        """Begin at zero.

        noun: the name of an item, such as `item` or `run`.
        clock: [s]
        """
        self.batch, self.noun, self.clock = batch, noun, clock
        self.begun = clock()
        self.running: dict[int, RunningItem] = {}
        """The running items by number; includes items that were taken back."""
        self.spent: float | None = 0.0
        """Cost of all items that have ended; None if a price is unknown [USD]."""
        self.new = 0
        """Number of items that this call has ended; those of earlier calls do not count."""
        self.earlier = 0
        """Number of items that earlier calls have ended."""
        self.new_cost: float | None = 0.0
        """Cost of the items that this call has ended [USD]."""
        self._paused = 0.0
        self._paused_at: float | None = None

    def hear_batch(self, event: "BatchEvent") -> None:
        """Record an event of the batch."""
        match event.event:
            case "item_started":
                # An item that was taken back and begins again reports what it has cost so far.
                self.running[event.number] = RunningItem()  # type: ignore[attr-defined]
            case "batch_paused":
                self._paused_at = self._paused_at or self.clock()
            case "batch_resumed" | "batch_ended":
                self._paused, self._paused_at = self.seconds_paused, None

    def hear(self, number: int, event: Event) -> None:
        """Record an event of an item's run."""
        if one := self.running.get(number):
            one.total.add(event)
            one.doing = _doing(event) or one.doing

    def end(self, done: "Done") -> None:
        """Record that an item has ended."""
        self.running.pop(done.number, None)
        self.earlier += done.is_earlier
        self.new += not done.is_earlier
        if done.outcome is not None:
            self.spent = total([self.spent, done.outcome.cost_usd])
            if not done.is_earlier:
                self.new_cost = total([self.new_cost, done.outcome.cost_usd])

    @property
    def seconds(self) -> float:
        """Time since the beginning [s]."""
        return self.clock() - self.begun

    @property
    def seconds_paused(self) -> float:
        """Duration of all pauses [s]."""
        return self._paused + (0.0 if self._paused_at is None else self.clock() - self._paused_at)

    @property
    def cost_usd(self) -> float | None:
        """Cost so far, including running items; None if a price is unknown [USD]."""
        return total([self.spent, *(one.total.cost_usd for one in [*self.running.values()])])

    def time_left(self, rest: int | None) -> float | None:
        """Return the expected time for the number of items left; None if it is unknown [s]."""
        return (self.seconds - self.seconds_paused) * rest / self.new if rest and self.new >= TELLING else None

    def cost_at_end(self, rest: int | None) -> float | None:
        """Return the expected cost of the whole batch, given the number of items left; None if it is unknown [USD]."""
        if rest is None or self.new < TELLING or self.new_cost is None or self.spent is None:
            return None
        return self.spent + rest * self.new_cost / self.new


def _doing(event: Event) -> str | None:
    """Return the activity of a run after an event, as text; None if the event does not change it."""
    match event:
        case Requested():
            return "thinking"
        case Called() if event.phase == "started":
            return call_text(event)
        case Retrying():
            return f"waits {event.seconds:.0f} s: {event.reason}"
        case ChildTold():
            return _doing(event.told)
        case _:
            return None


# Fields that usually name an item, the best first.
_TELLING = ("path", "name", "title", "id", "key", "question")
_LONGEST_LABEL = 200


def label(given: Any, question: str = "") -> str:  # noqa: ANN401 - an input of a batch
    """Return a short name of an item on one line: an identifying field, or its text."""
    text: object = given
    if isinstance(given, Mapping):
        named = [given[key] for key in _TELLING if isinstance(given.get(key), str | int) and str(given[key]).strip()]
        texts = [value for value in given.values() if isinstance(value, str) and value.strip()]
        text = next(iter([*named, *texts]), question)
    return one_line(str(text))[:_LONGEST_LABEL]


def spread(low: float, high: float) -> str:
    """Return a range of dollars, e.g. `$2.10 to $4.40`, or one amount if both look the same."""
    least, most = dollars(low), dollars(high)
    return least if least == most else f"{least} to {most}"


def by_state(counts: "Counts") -> Iterator[str]:
    """Yield the number of items in each non-empty state, e.g. `30 answered`, `2 failed (2 rate limited)`."""
    kinds = sorted(counts.failed, key=lambda kind: -counts.failed[kind])
    reasons = ", ".join(f"{counts.failed[kind]:,} {kind.replace('_', ' ')}" for kind in kinds)
    words = {"failed": f"failed ({reasons})", "aborted": "interrupted"}
    for state in ("answered", "landed", "partial", "failed", "aborted", "at_work_elsewhere", "not_run"):
        number = sum(counts.failed.values()) if state == "failed" else getattr(counts, state)
        if number:
            yield f"{number:,} {words.get(state, state.replace('_', ' '))}"


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


def ended_line(done: "Done") -> str:
    """Return a line about an ended item: its state, name, time and cost, and why it has no answer."""
    error = f": {one_line(with_flags(done.error))}" if done.error else ""
    parts = [f"{done.number:,} {label(done.input, done.item.question)}".strip(), f"{done.state}{error}"]
    if outcome := done.outcome:
        parts.append(amount(Kind.TOOL_CALLS, outcome.tool_calls.used))
        if outcome.cost_usd:
            parts.append(dollars(outcome.cost_usd))
        parts.append(duration_words(outcome.duration_s))
    return " · ".join(parts)


EACH_UP_TO = 200
"""Largest batch with a line per item; a larger one gets a line every `SECONDS` and one per item without an answer."""
SECONDS = 15.0
MOST_FAILURES = 50
"""Maximum number of lines about items without an answer in a large batch."""


class ItemLines:
    """Prints lines about ended items; items that earlier calls have ended are only counted."""

    def __init__(self, progress: MapProgress, say: Callable[[str], None]) -> None:
        self._progress, self._say = progress, say
        self._last = progress.clock()
        self._failures = 0

    def end(self, done: "Done") -> None:
        """Print the line that an ended item requires, if any."""
        if done.is_earlier:
            return
        progress = self._progress
        counts, noun = progress.batch.counts, progress.noun
        if counts.total is not None and counts.total <= EACH_UP_TO:
            # Several items may have ended before the first of them is reported.
            self._say(f"{progress.new + progress.earlier} of {counts.total}: {noun} {ended_line(done)}")
            return
        if done.state not in {"answered", "landed", "partial"} and self._failures < MOST_FAILURES:
            self._failures += 1
            last = "; further ones are only counted" if self._failures == MOST_FAILURES else ""
            self._say(f"{noun} {ended_line(done)}{last}")
        if progress.clock() - self._last >= SECONDS:
            self._last = progress.clock()
            parts = [done_of(counts, noun), *by_state(counts)]
            if cost := progress.cost_usd:
                parts.append(dollars(cost))
            if left := progress.time_left(None if counts.total is None else counts.total - counts.done):
                parts.append(f"{duration_words(left)} left")
            self._say(" · ".join(parts))


def done_of(counts: "Counts", noun: str) -> str:
    """Return the number of items done, e.g. `37 of 112 items`."""
    return f"{counts.done:,}{'' if counts.total is None else f' of {counts.total:,}'} {noun}s"


MOST_ITEMS = 4
"""How many running items are shown; the newest are preferred."""
# Maximum width of the bar [columns].
_WIDEST_BAR = 30
COMPLETE = frozenset({"answered", "landed"})


class MapView:
    """Draws the progress of a batch on standard error."""

    def __init__(self, progress: MapProgress, console: Console | None = None, *, answers: bool = False) -> None:
        """Prepare the view.

        answers: print the beginning of each answer, because it is written to no file.
        """
        self._progress, self._answers = progress, answers
        self.console = console or Console(stderr=True, highlight=False)
        self._spinner = Spinner("dots")
        self.notice = ""
        """A line about an early end, e.g. after Ctrl-C."""
        self.live: AbstractContextManager[object] = live_lines(self.render, self.console)

    def end(self, done: "Done") -> None:
        """Print, above the view, a line about each item, or only about an item without a complete answer."""
        is_complete = done.state in COMPLETE
        if done.is_earlier or (is_complete and not self._answers):
            return
        line = Text(ended_line(done), STATUSES.get(done.state, "red"))
        self.console.print(line, no_wrap=is_complete, overflow="ellipsis" if is_complete else None)
        answer = "" if done.outcome is None or done.state not in STATUSES else one_line(done.outcome.answer)
        if self._answers and answer:
            self.console.print(Text(f"    {answer}", "dim"), no_wrap=True, overflow="ellipsis")

    def render(self) -> RenderableType:
        """Return the lines; they fit the width and the height of the terminal."""
        batch = self._progress.batch
        counts, under_way = batch.counts, batch.under_way
        of = Text(
            f"{done_of(counts, self._progress.noun)} · {len(under_way)} under way", no_wrap=True, overflow="ellipsis"
        )
        cells: list[RenderableType] = [self._spinner, of]
        if counts.total and self.console.width > 2 * _WIDEST_BAR:
            cells.append(ProgressBar(counts.total, min(counts.done, counts.total), _WIDEST_BAR, finished_style="green"))
        head = Table.grid(padding=(0, 1))
        head.add_row(*cells)
        lines = [_row(" · ".join(by_state(counts))), _row(" · ".join(self._money_and_time()), "dim")]
        if (pause := batch.paused) is not None:
            left = max(math.ceil(pause.until - time.time()), 0)
            when = f"next try in {duration_words(left)}" if left else "trying again"
            lines.append(_row(f"paused, {when}: {one_line(pause.reason)}", "yellow"))
        lines.append(_row(self.notice, "yellow"))
        for item in under_way[-MOST_ITEMS:]:
            name = Text(label(item.input, item.question))
            name.truncate(max(self.console.width // 2 - 8, 8), overflow="ellipsis")
            doing = self._progress.running.get(item.number, RunningItem()).doing
            lines.append(_row(f"{item.number:>4,}  {name.plain}  {one_line(doing)}", "cyan"))
        return Group(head, *[line for line in lines if line.plain.strip()][: max(self.console.height - 2, 1) - 1])

    def _money_and_time(self) -> Iterator[str]:
        progress, batch, counts = self._progress, self._progress.batch, self._progress.batch.counts
        # Once the batch ends early, the other items are not asked about.
        rest = None if counts.total is None or batch.ended_because else max(counts.total - counts.done, 0)
        cost, limit, expected = progress.cost_usd, batch.cost_limit, progress.cost_at_end(rest)
        if cost is not None and (cost or limit is not None):
            about = "" if expected is None else f" of about {dollars(max(expected, cost))}"
            yield dollars(cost) + (about if limit is None else f" of at most {dollars(limit)}")
        if not batch.paused and (left := progress.time_left(rest)):
            yield f"{duration_words(left)} left"
        yield duration_words(progress.seconds)


def _row(text: str, style: str = "") -> Text:
    return Text(f"  {text}", style, no_wrap=True, overflow="ellipsis")


# Terminal codes that the live view would write at its end: restore line wrapping and show the cursor.
_SHOW_CURSOR = b"\r\n\x1b[?7h\x1b[?25h"


class MapWorker:
    """Runs a batch once: passes on its results, shows its progress, and ends it on signals."""

    def __init__(
        self,
        batch: "Batch",
        writers: "Sequence[Callable[[Done], object]]",
        *,
        shows: bool,
        events: bool = False,
        answers: bool = False,
        noun: str = "item",
    ) -> None:
        """Prepare the work.

        writers: called with each ended item; they raise OSError or UsageError.
        shows: show the progress on standard error: a live view on a terminal, otherwise lines.
        events: print the events on standard output.
        answers: show the beginning of each answer in the live view.
        noun: the name of an item in the lines and in the view.
        """
        self.batch = batch
        self.progress = progress = MapProgress(batch, noun)
        self.interrupts = 0
        """Number of signals received."""
        self._writers = list(writers)
        self._events = events
        # Prints are redirected during the work.
        self._out = sys.stdout
        self._shows = shows
        is_live = shows and sys.stderr is not None and is_terminal(sys.stderr)
        self._view = MapView(progress, answers=answers) if is_live else None
        if shows:
            self._writers.append((self._view or ItemLines(progress, say)).end)
        # The error that ended the output.
        self._error: OSError | UsageError | None = None

    def work(self, runner: "Runner") -> None:
        """Work until the batch ends, then close the runner.

        Raises OSError or UsageError if rows or events cannot be written; the runs are stopped and stored first.
        """

        def hear_run(number: int, event: Event) -> None:
            self.progress.hear(number, event)
            self._print({"item": number, **event.as_json()})

        def hear_batch(event: "BatchEvent") -> None:
            self.progress.hear_batch(event)
            if event.event == "batch_paused" and not self._view:
                self._notify(f"paused: {self.batch.problem}")
            self._print(event.as_json())

        self.batch.listen(hear_batch)
        self.batch.listen_runs(hear_run)

        async def once() -> None:
            async with runner:
                loop = asyncio.get_running_loop()
                # Closing the terminal ends the batch, unless `nohup` ignores the signal.
                for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                    if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
                        loop.add_signal_handler(number, self._interrupt, loop)
                async for done in self.batch:
                    self.progress.end(done)
                    for write in self._writers:
                        self._guarded(partial(write, done))

        # Prints of tools and their modules must not mix with the rows or the events.
        with self._view.live if self._view else nullcontext(), redirect_stdout(sys.stderr):
            asyncio.run(with_bounded_cleanup(once()))
        if self._error:
            raise self._error

    def _notify(self, line: str) -> None:
        if self._view:
            self._view.notice = line
        elif self._shows:
            say(line)

    def _print(self, event: dict[str, Any]) -> None:
        if self._events and self._out is not None:
            self._guarded(lambda: print_json(event, None, self._out))

    def _guarded(self, write: Callable[[], object]) -> None:
        """Write, unless that has failed before; if it fails, stop the batch. Its runs stay stored."""
        if self._error is None:
            try:
                write()
            except (OSError, UsageError) as error:
                self._error = error
                self.batch.stop(now=True)

    def _interrupt(self, loop: asyncio.AbstractEventLoop) -> None:
        self.interrupts += 1
        if self.interrupts == 1:
            self.batch.stop()
            turns = self.batch.counts.under_way
            doing = f"finishing {counted(turns, 'turn')}" if turns else "stopping"
            self._notify(f"{doing}; Ctrl-C again to stop immediately")
            return
        # The next one ends the program, even if a tool ignores that it is cancelled; what was paid is stored.
        loop.remove_signal_handler(signal.SIGINT)
        signal.signal(signal.SIGINT, _exit)
        self._notify("stopping immediately")
        self.batch.stop(now=True)


def _exit(*_: object) -> None:
    if sys.stderr is not None and sys.stderr.isatty():
        os.write(sys.stderr.fileno(), _SHOW_CURSOR)
    os._exit(Exit.INTERRUPTED)

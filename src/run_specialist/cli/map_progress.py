"""Run a batch in the terminal, for `map` and `eval`: progress, lines, the live view, signals."""

import asyncio
import math
import os
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, redirect_stdout
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group, RenderableType
from rich.spinner import Spinner
from rich.text import Text

from run_specialist.api.event_loop import with_bounded_cleanup
from run_specialist.budget import Kind, amount, dollars
from run_specialist.cli.console import is_terminal, one_line, print_json, printable, say
from run_specialist.cli.live import STATUSES, RunningTotal, call_text, live_lines
from run_specialist.cli.tables import duration_words
from run_specialist.errors import UsageError, with_flags
from run_specialist.record.events import Called, ChildTold, Event, Requested, Retrying
from run_specialist.record.outcome import Exit

if TYPE_CHECKING:
    from run_specialist.api.runner import Runner
    from run_specialist.batch.batch import Batch
    from run_specialist.batch.item import BatchEvent, Counts, Done, Item


TELLING = 5
"""Minimum number of ended items for a forecast."""
_NEWEST = 64
"""Number of newest ends from which the speed is calculated."""


@dataclass
class ItemProgress:
    """A running item."""

    number: int
    label: str
    doing: str = "starting"
    total: RunningTotal = field(default_factory=RunningTotal)


class MapProgress:
    """Follows the events of a batch; a view reads its figures, possibly from another thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin at zero.

        clock: [s]
        """
        self.clock = clock
        self.begun = clock()
        self.under_way: dict[int, ItemProgress] = {}
        """The running items by number, the newest last; includes items that were taken back."""
        self.spent: float | None = 0.0
        """Cost of all items that this call has ended; None if a price is unknown [USD]."""
        self.new = 0
        """Number of items that this call has ended; those of earlier calls do not count."""
        self.earlier = 0
        """Number of items that earlier calls have ended."""
        self.new_cost: float | None = 0.0
        """Cost of the items that this call has ended [USD]."""
        self.seconds_paused = 0.0
        self._ends: deque[float] = deque(maxlen=_NEWEST)
        self._paused_at: float | None = None

    def begin(self, item: "Item") -> None:
        """Record that an item begins."""
        self.under_way[item.number] = ItemProgress(item.number, label(item.input, item.question))

    def hear_batch(self, event: "BatchEvent", items: Iterable["Item"] = ()) -> None:
        """Record an event of the batch.

        items: the running ones.
        """
        match event.event:
            case "item_started":
                # An item that was taken back and begins again reports what it has cost so far.
                for item in items:
                    if item.number == getattr(event, "number", None):
                        self.begin(item)
            case "batch_paused":
                self._paused_at = self._paused_at or self.clock()
            case "batch_resumed" | "batch_ended" if self._paused_at is not None:
                self.seconds_paused += self.clock() - self._paused_at
                self._paused_at = None
            case _:
                pass

    def hear(self, number: int, event: Event) -> None:
        """Record an event of an item's run."""
        if (one := self.under_way.get(number)) is None:
            return
        one.total.add(event)
        if (doing := _doing(event)) is not None:
            one.doing = doing

    def end(self, done: "Done") -> None:
        """Record that an item has ended."""
        self.under_way.pop(done.number, None)
        cost = None if done.outcome is None else done.outcome.cost_usd
        if done.outcome is not None:
            self.spent = _sum(self.spent, cost)
        if done.is_earlier:
            self.earlier += 1
            return
        self.new += 1
        self._ends.append(self._worked())
        if done.outcome is not None:
            self.new_cost = _sum(self.new_cost, cost)

    @property
    def seconds(self) -> float:
        """Time since the beginning [s]."""
        return self.clock() - self.begun

    @property
    def cost_usd(self) -> float | None:
        """Cost so far, including running items; None if a price is unknown [USD]."""
        total = self.spent
        for one in [*self.under_way.values()]:
            total = _sum(total, one.total.cost_usd)
        return total

    @property
    def per_second(self) -> float | None:
        """Recent speed [items per second]; None until enough items have ended."""
        if len(self._ends) < TELLING:
            return None
        since = self._ends[0] if len(self._ends) == _NEWEST else 0.0
        seconds = self._worked() - since
        return None if seconds <= 0 else len(self._ends) / seconds

    def cost_at_end(self, rest: int) -> float | None:
        """Return the expected cost of the whole batch, given the number of items left; None if it is unknown [USD]."""
        if self.new < TELLING or self.new_cost is None or self.spent is None:
            return None
        return self.spent + rest * self.new_cost / self.new

    def _worked(self) -> float:
        """Time since the beginning, without pauses [s]."""
        pause = 0.0 if self._paused_at is None else self.clock() - self._paused_at
        return self.seconds - self.seconds_paused - pause


def _sum(total: float | None, more: float | None) -> float | None:
    return None if total is None or more is None else total + more


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


_TELLING = ("path", "name", "title", "id", "key", "question")
"""Fields that usually name an item, the best first."""
_LONGEST_LABEL = 200


def counted(number: int, noun: str = "item") -> str:
    """Return a number with its noun, e.g. `1 item` or `1,200 items`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def rate(per_second: float, noun: str = "item") -> str:
    """Return a speed in the unit that gives a readable number, e.g. `4.1 items a minute`."""
    for seconds, unit in ((1, "second"), (60, "minute"), (3_600, "hour")):
        number = per_second * seconds
        if number >= 2 or unit == "hour":  # noqa: PLR2004 - `1 items` would be wrong, and a rate of one is slow
            article = "an" if unit == "hour" else "a"
            return f"{number:,.{0 if number >= 10 else 1}f} {noun}s {article} {unit}"  # noqa: PLR2004 - two digits
    raise AssertionError  # the last unit always returns


def label(given: Any, question: str = "") -> str:  # noqa: ANN401 - an input of a batch
    """Return a short name of an item on one line: an identifying field, or its text."""
    text: object = given
    if isinstance(given, Mapping):
        named = [given[key] for key in _TELLING if isinstance(given.get(key), str | int) and str(given[key]).strip()]
        texts = [value for value in given.values() if isinstance(value, str) and value.strip()]
        text = next(iter([*named, *texts]), question)
    return printable(" ".join(str(text).split()))[:_LONGEST_LABEL]


def fitting(parts: Iterable[str], width: int, before: str = "", between: str = " · ") -> str:
    """Return the parts that fit the width, skipping those that do not; the first is always included."""
    from rich.cells import cell_len  # noqa: PLC0415 - fast `--help`

    line, is_first = before, True
    for part in filter(None, parts):
        longer = line + ("" if is_first else between) + part
        if is_first or cell_len(longer) <= width:
            line, is_first = longer, False
    return line


def spread(low: float, high: float) -> str:
    """Return a range of dollars, e.g. `$2.10 to $4.40`, or one amount if both look the same."""
    least, most = dollars(low), dollars(high)
    return least if least == most else f"{least} to {most}"


EACH_UP_TO = 200
"""Largest batch with a line per item; a larger one gets a line every `SECONDS` and one per item without an answer."""
SECONDS = 15.0
MOST_FAILURES = 50
"""Maximum number of lines about items without an answer in a large batch."""


class ItemLines:
    """Prints lines about ended items; items that earlier calls have ended are only counted."""

    def __init__(self, batch: "Batch", progress: MapProgress, say: Callable[[str], None], noun: str = "item") -> None:
        self._batch = batch
        self._progress = progress
        self._say = say
        self._noun = noun
        self._last = progress.clock()
        self._failures = 0

    def end(self, done: "Done") -> None:
        """Print the line that an ended item requires, if any."""
        if done.is_earlier:
            return
        counts = self._batch.counts
        if counts.total is not None and counts.total <= EACH_UP_TO:
            self._say(f"{counts.done} of {counts.total}: {self._noun} {ended_line(done)}")
            return
        if done.state not in {"answered", "landed", "partial"} and self._failures < MOST_FAILURES:
            self._failures += 1
            last = "; further ones are only counted" if self._failures == MOST_FAILURES else ""
            self._say(f"{self._noun} {ended_line(done)}{last}")
        if self._progress.clock() - self._last >= SECONDS:
            self._last = self._progress.clock()
            progress = self._progress
            ended = f"{counts.done:,}" if counts.total is None else f"{counts.done:,} of {counts.total:,}"
            parts = [f"{ended} {self._noun}s", *by_state(counts)]
            if cost := progress.cost_usd:
                parts.append(dollars(cost))
            if speed := progress.per_second:
                parts.append(rate(speed, self._noun))
                if counts.total is not None:
                    parts.append(f"{duration_words((counts.total - counts.done) / speed)} left")
            self._say(" · ".join(parts))


def by_state(counts: "Counts") -> Iterator[str]:
    """Yield the number of items in each non-empty state, e.g. `30 answered`, `2 failed (rate limited 2)`."""
    failed = sum(counts.failed.values())
    for number, state in (
        (counts.answered, "answered"),
        (counts.landed, "landed"),
        (counts.partial, "partial"),
        (failed, f"failed ({', '.join(reasons(counts))})"),
        (counts.aborted, "interrupted"),
        (counts.at_work_elsewhere, "at work elsewhere"),
        (counts.not_run, "not run"),
    ):
        if number:
            yield f"{number:,} {state}"


def reasons(counts: "Counts") -> Iterator[str]:
    """Yield the reasons for failed items, the most frequent first, e.g. `2 rate limited`."""
    for kind in sorted(counts.failed, key=lambda kind: -counts.failed[kind]):
        yield f"{counts.failed[kind]:,} {kind.replace('_', ' ')}"


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
    name = label(done.input, done.item.question)
    parts = [f"{done.number:,} {name}" if name else f"{done.number:,}", done.state]
    if outcome := done.outcome:
        parts.append(amount(Kind.TOOL_CALLS, outcome.tool_calls.used))
        if outcome.cost_usd:
            parts.append(dollars(outcome.cost_usd))
        parts.append(duration_words(outcome.duration_s))
    if done.error:
        parts[1] = f"{done.state}: {' '.join(with_flags(done.error).split())}"
    return " · ".join(parts)


MOST_ITEMS = 4
"""How many running items are shown; the newest are preferred."""
NARROWEST_BAR, WIDEST_BAR = 8, 30
"""[columns]"""
COMPLETE = frozenset({"answered", "landed"})


class MapView:
    """Draws the progress of a batch on standard error."""

    def __init__(
        self,
        batch: "Batch",
        progress: MapProgress,
        console: Console | None = None,
        *,
        answers: bool = False,
        noun: str = "item",
    ) -> None:
        """Prepare the view.

        answers: print the beginning of each answer, because it is written to no file.
        noun: the name of an item, such as `item` or `run`.
        """
        self._batch = batch
        self._progress = progress
        self.console = console or Console(stderr=True, highlight=False)
        self._answers = answers
        self._noun = noun
        self._spinner = Spinner("dots")
        self.notice = ""
        """A line about an early end, e.g. after Ctrl-C."""
        self.live: AbstractContextManager[object] = live_lines(self.render, self.console)

    def end(self, done: "Done") -> None:
        """Print, above the view, a line about each item, or only about an item without a complete answer."""
        if done.is_earlier or (done.state in COMPLETE and not self._answers):
            return
        line = Text(ended_line(done), STATUSES.get(done.state, "red"))
        self.console.print(self._cut(line) if done.state in COMPLETE else line)
        answer = "" if done.outcome is None or done.state not in STATUSES else one_line(done.outcome.answer)
        if self._answers and answer:
            self.console.print(self._cut(Text(f"    {answer}", "dim")))

    def _cut(self, line: Text) -> Text:
        line.truncate(self.console.width, overflow="ellipsis")
        return line

    def render(self) -> RenderableType:
        """Return the lines; they fit the width and the height of the terminal."""
        width, height = self.console.width, self.console.height
        counts, under_way = self._batch.counts, self._batch.under_way
        done = f"{counts.done:,}" if counts.total is None else f"{counts.done:,} of {counts.total:,}"
        head = Text(fitting([f"{done} {self._noun}s", f"{len(under_way)} under way"], width - 2))
        # The spinner does not keep the settings of its text.
        head.truncate(max(width - 2, 0), overflow="ellipsis")
        size = min(width - head.cell_len - 4, WIDEST_BAR)
        if counts.total and size >= NARROWEST_BAR:
            filled = math.floor(size * min(counts.done / counts.total, 1))
            head.append("  ").append("━" * filled, "green").append("━" * (size - filled), "bright_black")
        self._spinner.update(text=head)

        lines = [*self._figures(width)]
        numbers = {item.number for item in under_way}
        shown = [one for one in [*self._progress.under_way.values()] if one.number in numbers]
        for one in shown[-MOST_ITEMS:]:
            name = Text(f"{one.number:>4,}  {one.label}", no_wrap=True)
            name.truncate(max(width // 2 - 2, 8), overflow="ellipsis")
            lines.append(_row(f"{name.plain}  {one_line(one.doing)}", "cyan", width))
        room = max(height - 2, 1)
        return Group(self._spinner, *lines[: room - 1])

    def _figures(self, width: int) -> Iterator[Text]:
        if counts := fitting(by_state(self._batch.counts), width - 2):
            yield _row(counts, "", width)
        yield _row(fitting(self._money_and_time(), width - 2), "dim", width)
        pause = self._batch.paused
        if pause is not None:
            left = max(math.ceil(pause.until - time.time()), 0)
            when = f"next try in {duration_words(left)}" if left else "trying again"
            yield _row(f"paused, {when}: {one_line(pause.reason)}", "yellow", width)
        if self.notice:
            yield _row(self.notice, "yellow", width)

    def _money_and_time(self) -> Iterator[str]:
        progress, counts = self._progress, self._batch.counts
        # Once the batch ends early, the other items are not asked about.
        rest = None if counts.total is None or self._batch.ended_because else max(counts.total - counts.done, 0)
        cost, limit = progress.cost_usd, self._batch.cost_limit
        if cost is not None and (cost or limit is not None):
            expected = None if rest is None else progress.cost_at_end(rest)
            if limit is not None:
                yield f"{dollars(cost)} of at most {dollars(limit)}"
            elif expected is not None:
                yield f"{dollars(cost)} of about {dollars(max(expected, cost))}"
            else:
                yield dollars(cost)
        speed = None if self._batch.paused or self._batch.ended_because else progress.per_second
        if speed and rest:
            yield f"{duration_words(rest / speed)} left"
        yield duration_words(progress.seconds)
        if speed:
            yield rate(speed, self._noun)


def _row(text: str, style: str, width: int) -> Text:
    line = Text(f"  {text}", style, no_wrap=True, overflow="ellipsis")
    line.truncate(width, overflow="ellipsis")
    return line


_SHOW_CURSOR = b"\r\n\x1b[?7h\x1b[?25h"
"""Terminal codes that the live view would write at its end: restore line wrapping and show the cursor."""


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
        self.progress = MapProgress()
        self.interrupts = 0
        """Number of signals received."""
        self._writers = writers
        self._events = events
        # Prints are redirected during the work.
        self._out = sys.stdout
        is_live = shows and sys.stderr is not None and is_terminal(sys.stderr)
        self._view = MapView(batch, self.progress, answers=answers, noun=noun) if is_live else None
        self._lines = ItemLines(batch, self.progress, say, noun) if shows and not is_live else None
        self._error: OSError | UsageError | None = None
        """The error that ended the output."""

    def work(self, runner: "Runner") -> None:
        """Work until the batch ends, then close the runner.

        Raises OSError or UsageError if rows or events cannot be written; the runs are stopped and stored first.
        """

        def hear_run(number: int, event: Event) -> None:
            self.progress.hear(number, event)
            if self._events:
                self._print({"item": number, **event.as_json()})

        def hear_batch(event: "BatchEvent") -> None:
            self.progress.hear_batch(event, self.batch.under_way)
            if event.event == "batch_paused" and not self._view:
                self._notify(f"paused: {self.batch.problem}")
            if self._events:
                self._print(event.as_json())

        self.batch.listen(hear_batch)
        self.batch.listen_runs(hear_run)

        async def once() -> None:
            async with runner:
                loop = asyncio.get_running_loop()
                # Closing the terminal ends the batch, unless `nohup` ignores the signal.
                hang_up = getattr(signal, "SIGHUP", None)
                hang_ups = [] if hang_up is None or signal.getsignal(hang_up) is signal.SIG_IGN else [hang_up]
                for number in (signal.SIGINT, signal.SIGTERM, *hang_ups):
                    loop.add_signal_handler(number, self._interrupt, loop)
                async for done in self.batch:
                    self.progress.end(done)
                    for write in self._writers:
                        self._guarded(partial(write, done))
                    if self._view:
                        self._view.end(done)
                    if self._lines:
                        self._lines.end(done)

        # Prints of tools and their modules must not mix with the rows or the events.
        with self._view.live if self._view else nullcontext(), redirect_stdout(sys.stderr):
            asyncio.run(with_bounded_cleanup(once()))
        if self._error:
            raise self._error

    def _notify(self, line: str) -> None:
        if self._view:
            self._view.notice = line
        elif self._lines:
            say(line)

    def _print(self, value: object) -> None:
        if self._out is not None:
            self._guarded(lambda: print_json(value, None, self._out))

    def _guarded(self, write: Callable[[], object]) -> None:
        """Write, unless that has failed before; if it fails, stop the batch. Its runs stay stored."""
        if self._error is not None:
            return
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

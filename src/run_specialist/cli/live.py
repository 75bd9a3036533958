"""The live view of a run: what is typed into it, its calls, the gauge of its budget."""

import asyncio
import codecs
import math
import os
import re
import sys
import termios
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Self

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.control import Control
from rich.live import Live
from rich.live_render import LiveRender
from rich.segment import ControlType, Segment
from rich.text import Text

from run_specialist import budget as units
from run_specialist.budget import Kind, Phase, Rung
from run_specialist.cli.console import one_line, printable
from run_specialist.cli.tables import STATUSES, brief
from run_specialist.errors import with_flags
from run_specialist.loop.exchange import PartialReply
from run_specialist.providers.base import Delta
from run_specialist.record import events
from run_specialist.record.outcome import Outcome
from run_specialist.specialist.tool_names import DELEGATE
from run_specialist.tools.planning import TODO, current

ANSWER_LINES = 6
ANSWER_CHARACTERS = 2_000
# Longer answers are not shown while they stream, because each refresh parses the answer again.
_PARSED_CHARACTERS = 100_000


# Frames of the spinner.
_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


class LiveView:
    """Shows a run on standard error; listens to its events and watches its streamed replies."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True, highlight=False)
        self._doing = "starting"
        # A wait before a request or a retry, its end by the monotonic clock [s], and the prefix of its line.
        self._wait: tuple[events.Retrying | events.Waiting, float, str] | None = None
        self._total = RunningTotal()
        self._turn = 0
        self._begun = time.monotonic()
        self._budget: events.BudgetSpent | None = None
        self._call_lines = CallLines(self._console)
        self._reply = PartialReply()
        self.typed: TypedLines | None = None
        """What is being typed."""
        self.waiting: list[str] = []
        """Typed lines that wait for the next request."""
        self.warnings: set[str] = set()
        """The warnings that were shown; those of child runs are not among them."""
        self._live = live_lines(self._render, self._console)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def __call__(self, event: events.Event) -> None:
        """Show an event of the run."""
        self._total.add(event)
        self._wait = None
        match event:
            case events.Started():
                kind, limit = next(((k, v) for k, v in event.limits.items() if v is not None), ("tool_calls", None))
                self._budget = events.BudgetSpent(kind, limit, 0, limit, Phase.SILENT)
                self._console.print(Text(one_line(f"{event.specialist} · {event.model}"), "bold"))
            case events.Resumed() | events.Forked():
                self._show_resumed(event)
            case events.Requested():
                self._turn, self._reply = event.turn, PartialReply()
            case events.Retrying():
                self._doing, self._reply = "thinking", PartialReply()
            case events.BudgetSpent():
                self._budget = event
            case events.Steered():
                self.waiting = [text for text in self.waiting if text != event.text]
                self._console.print(Text(f"  you add: {one_line(event.text)}", "cyan"))
            case events.Warned():
                self.warnings.add(event.text)
            case events.Finished():
                self.waiting = []
                self._console.print("")
        self._show_activity(event)
        self._call_lines.add(event)

    def _show_activity(self, event: events.Event, name: str = "") -> None:
        """Show what the run does now, or a child run.

        name: prefix with the name of the child run; empty for the run itself.
        """
        match event:
            case events.ChildTold():
                self._show_activity(event.told, f"{printable(event.specialist)}: ")
            case events.Requested():
                self._doing = f"{name}thinking"
            case events.Called(phase="started"):
                self._doing = f"{name}{call_text(event)}"
            case events.Retrying() | events.Waiting(phase="started"):
                self._wait = event, time.monotonic() + (event.seconds or 0), name

    def grow(self, delta: Delta) -> None:
        """Show a delta of a streamed reply."""
        self._wait = None
        self._reply.add(delta)
        if self._reply.is_answering:
            self._doing = "answering"

    def say(self, text: str) -> None:
        """Print a message above the lines that change."""
        self._console.print(Text(f"  {one_line(text)}", "yellow"))

    def prepare(self, what: str) -> None:
        """Show what happens before the run begins; may be called from any thread."""
        self._doing = one_line(what)

    def _show_resumed(self, event: events.Resumed | events.Forked) -> None:
        self._call_lines.calls = int(event.used.get(Kind.TOOL_CALLS, 0))
        if self._budget is not None and self._budget.limit is not None:
            used = event.used.get(self._budget.kind, 0)
            self._budget = replace(self._budget, used=used, remaining=max(self._budget.limit - used, 0))
        calls, after = units.amount(Kind.TOOL_CALLS, self._call_lines.calls), "resumed after"
        if isinstance(event, events.Forked):
            after = f"forked after {units.amount(Kind.TURNS, event.at)} and"
        self._console.print(Text(f"  {after} {calls}", "cyan"))

    def _render(self) -> RenderableType:
        frame = _FRAMES[int(10 * time.monotonic()) % len(_FRAMES)]
        doing = Text(self._doing)
        if self._wait:
            event, until, name = self._wait
            left = math.ceil(until - time.monotonic())
            # The remaining time comes first, so that even a narrow terminal shows it.
            what = f"waiting {left} s" if left > 0 else "waiting"
            if isinstance(event, events.Retrying):
                what = f"retry {event.attempt} {f'in {left} s' if left > 0 else 'now'}"
            doing = Text(f"{name}{what} · {one_line(event.reason)}", "yellow")
        # Without wrapping, the height stays constant; otherwise old lines would remain on the screen.
        line = Text.assemble((f"{frame} ", "cyan"), doing, no_wrap=True, overflow="ellipsis")
        seconds = time.monotonic() - self._begun
        calls, width = self._call_lines.calls, self._console.width
        bar = self._budget and gauge(self._budget, calls, self._turn, self._total, seconds, width)
        parts = [line, bar or Text(f"{seconds:.0f} s", "dim")]
        size = len(self._reply)
        answer = self._reply.text if size <= _PARSED_CHARACTERS else f"… {size:,} characters"
        if answer:
            # Wrapped at words, so that the newest ones are always on the screen.
            lines = Text(printable(answer[-ANSWER_CHARACTERS:])).wrap(self._console, self._console.width)
            newest = "\n".join(line.plain.rstrip() for line in lines[-ANSWER_LINES:])
            parts.append(Text(newest, "italic", no_wrap=True, overflow="ellipsis"))
        # Of the line that is being typed, its end.
        typed = [printable(self.typed.line)[-max(width - 4, 1) :]] if self.typed and self.typed.line else []
        lines_typed = [*map(one_line, self.waiting), *typed]
        parts += [Text(f"› {one}", "cyan", no_wrap=True, overflow="ellipsis") for one in lines_typed]
        return Group(*parts)


# Escape sequences of arrow keys and the like.
_KEYS = re.compile(r"\x1b(?:[\[O][0-9;]*[~A-Za-z]?)?")
_BACKSPACES, _CLEAR_LINE = "\x7f\b", "\x15"


class TypedLines:
    """Reads standard input in the event loop, without the echo of the terminal, which the live view would overwrite."""

    def __init__(self, take: Callable[[str], None]) -> None:
        """Do nothing yet; `take` gets each complete line that is not empty."""
        self.line = ""
        """What was typed since the last complete line."""
        self._take = take
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._before: list[Any] | None = None

    def __enter__(self) -> Self:
        # Nothing can be typed if it is closed, replaced by the calling program, or no terminal.
        with suppress(OSError, ValueError, AttributeError, termios.error):
            number = sys.stdin.fileno()
            before, quiet = termios.tcgetattr(number), termios.tcgetattr(number)
            with suppress(OSError):  # not the terminal of its session
                if os.tcgetpgrp(number) != os.getpgrp():
                    # A program in the background that changes the terminal is stopped.
                    return self
            quiet[3] &= ~(termios.ICANON | termios.ECHO)
            asyncio.get_running_loop().add_reader(number, self._read)
            termios.tcsetattr(number, termios.TCSANOW, quiet)
            self._before = before
        return self

    def __exit__(self, *_: object) -> None:
        if self._before is not None:
            asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
            termios.tcsetattr(sys.stdin.fileno(), termios.TCSANOW, self._before)

    def _read(self) -> None:
        data = b""
        with suppress(OSError):
            data = os.read(sys.stdin.fileno(), 4_096)
        if not data:
            # The terminal was closed.
            asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
        for key in _KEYS.sub("", self._decoder.decode(data)):
            if key in "\r\n":
                line, self.line = self.line.strip(), ""
                if line:
                    self._take(line)
            elif key in _BACKSPACES:
                self.line = self.line[:-1]
            elif key == _CLEAR_LINE:
                self.line = ""
            elif key.isprintable():
                self.line += key


COLORS = {Phase.SILENT: "green", Phase.COUNTDOWN: "yellow", Phase.SPENT: "red"}
LANDINGS = {
    Rung.FORCE: "it must call respond now",
    Rung.ORDER: "it is instructed to respond now",
    Rung.WAIT: "further calls are skipped",
    Rung.FINALIZE: "it is instructed to finish now",
    Rung.SCHEMA: "its reply is limited to the answer as JSON now",
    Rung.NONE: "it must answer in text now",
    Rung.SALVAGE: "the answer is assembled from the gathered material",
}
"""Descriptions of the rungs of the landing."""
# Maximum number of changed files shown below a call.
_MOST_CHANGES = 10
_ROOM_FOR_REMAINING = len("  12 remaining")


class CallLines:
    """Prints the events of one run as lines; lines of child runs are indented and start with the child's name."""

    def __init__(self, console: Console, label: str = "", name: str = "", depth: int = 0) -> None:
        """Create the lines of one run.

        label: number of the `delegate` call that started the run, e.g. `2`; its first call is `2.1`. Empty at the top.
        name: the specialist; empty at the top.
        depth: number of ancestor runs.
        """
        self._console = console
        self._label = label
        self._name = printable(name)
        self._depth = depth
        self.calls = 0
        """Number of calls printed."""
        self._line = Text()
        self._running: dict[str, events.Called] = {}
        # Changes of files by the calls that are running.
        self._changes: defaultdict[str, list[events.FileChanged]] = defaultdict(list)
        self._ended_call = ""
        self._children: dict[str, CallLines] = {}
        self._children_by_call: dict[str, CallLines] = {}
        self._outcome: Outcome | None = None

    def add(self, event: events.Event) -> None:
        """Print the lines of an event, if it has any."""
        match event:
            case events.Called():
                self._call(event)
            case events.ChildTold():
                self._child(event).add(event.told)
            case events.BudgetSpent():
                # A call is printed once the remaining budget is known, which follows in this event.
                self._print(self._line, _remaining(event))
                self._line = Text()
                changes = self._changes.pop(self._ended_call, [])
                for change in changes[:_MOST_CHANGES]:
                    self._print_change(change)
                if len(changes) > _MOST_CHANGES:
                    more = f"    and {len(changes) - _MOST_CHANGES:,} more files"
                    self._print(_start(self._depth).append(more, "magenta"))
            case events.FileChanged():
                # Printed below the line of its call, which follows.
                if event.call_id in self._running:
                    self._changes[event.call_id].append(event)
                else:
                    self._print_change(event)
            case events.Landed():
                self._print_notice(f"limit of {event.reason.label} reached: {LANDINGS[event.how]}", "bold red")
            case events.Warned():
                self._print_notice(one_line(event.text), "yellow")
            case events.Summarized():
                size = f"{event.tokens_before:,} to {event.tokens_after:,} tokens"
                self._print_notice(f"summarized {event.archived} earlier results, from {size}", "cyan")
            case events.Finished():
                self._outcome = event.outcome

    def _call(self, event: events.Called) -> None:
        if event.phase == "started":
            self._running[event.id] = event
            return
        self._ended_call = event.id
        self._running.pop(event.id, None)
        if child := self._children_by_call.pop(event.id, None):
            self._line = child.outcome_line()
        elif event.phase == "skipped":
            self._print(self._call_line(" -", event, "dim"), Text("  not run", "dim"))
        else:
            self.calls += 1
            self._line = self._call_line(str(self.calls), event)
            if event.phase == "failed":
                reason = Text(f"  {one_line(event.text)}", "red")
                # Truncate a long call, so that the failure stays visible.
                most = self._console.width - min(len(reason), self._console.width // 2)
                self._line.truncate(max(most, 1), overflow="ellipsis")
                self._line.append(reason)

    def _child(self, event: events.ChildTold) -> "CallLines":
        """Return the lines of a child run; its first event prints the `delegate` call that started it."""
        if event.run_id not in self._children:
            self.calls += 1
            label = f"{self._label}.{self.calls}" if self._label else str(self.calls)
            child = self._children[event.run_id] = CallLines(self._console, label, event.specialist, self._depth + 1)
            question = event.told.question if isinstance(event.told, events.Started) else ""
            wanted = {"specialist": event.specialist, "query": question}
            asked = (one for one in self._running.values() if one.name == DELEGATE)
            unmatched = [one for one in asked if one.id not in self._children_by_call]
            if unmatched:
                # The call that best matches by specialist, then by question.
                call = min(unmatched, key=lambda one: [(one.arguments or {}).get(key) != wanted[key] for key in wanted])
                self._children_by_call[call.id] = child
            line = self._numbered_line(str(self.calls), f"{DELEGATE} {printable(event.specialist)}")
            self._print(line.append(f"  {one_line(question)}", "italic"))
        return self._children[event.run_id]

    def outcome_line(self) -> Text:
        """Return the line of the `delegate` call that started the run, with its status and usage."""
        line = _start(self._depth - 1, self._label).append(f"  {self._name} ")
        if self._outcome is not None:
            line.append(self._outcome.status, STATUSES.get(self._outcome.status, "red"))
            line.append(f" · {brief(self._outcome)}", "dim")
            if self._outcome.error:
                line.append(f"  {one_line(with_flags(self._outcome.error))}", "red")
        return line

    def _numbered_line(self, number: str, text: str, style: str = "") -> Text:
        """Return a line with its number; in a child run the specialist's name precedes the text."""
        line = _start(self._depth, f"{self._label}.{number.strip()}" if self._label else number, style)
        return line.append("  ").append(f"{self._name}  " if self._name else "", "cyan").append(text)

    def _call_line(self, number: str, call: events.Called, style: str = "") -> Text:
        line, text = self._numbered_line(number, "", style), call_text(call)
        path = (call.arguments or {}).get("path")
        shown = rest = path if isinstance(path, str) and path in text else ""
        # The name of the file tells more than the folders before it.
        while line.cell_len + len(text) > self._console.width - _ROOM_FOR_REMAINING and "/" in rest:
            rest = rest.partition("/")[2]
            text, shown = text.replace(shown, f"…/{rest}", 1), f"…/{rest}"
        return line.append(text)

    def _print_change(self, event: events.FileChanged) -> None:
        done = f"would {event.change[:-1]}" if event.dry_run else event.change
        counts = Text("  ")
        if event.added is not None and event.removed is not None:
            counts.append(f"+{event.added}", "green").append(f" -{event.removed}", "red")
        if not (event.undoable or event.dry_run):
            counts.append(" cannot be undone", "yellow")
        self._print(_start(self._depth).append(f"    {done} {one_line(event.path)}", "magenta"), counts)

    def _print_notice(self, text: str, style: str) -> None:
        line = _start(self._depth)
        if self._name:
            self._print(line.append(f"{self._label}  ", "dim").append(f"{self._name}  ", "cyan").append(text, style))
        else:
            # The notices of the run itself are wrapped.
            self._console.print(line.append(text, style))

    def _print(self, line: Text, end: Text | None = None) -> None:
        """Print a line, truncated so that its end is visible."""
        end = end or Text()
        line.truncate(max(self._console.width - len(end), 1), overflow="ellipsis")
        self._console.print(line.append(end))


def _start(depth: int, label: str = "", style: str = "") -> Text:
    """Return the indentation and the number of a line; at the top level numbers are right-aligned in a column."""
    return Text("  " * (depth + 2 if depth else 1), style).append(label if depth or not label else f"{label:>2}", "dim")


def call_text(call: events.Called) -> str:
    """Return a call as text: the tool's name and its arguments."""
    if call.name == TODO:
        text = current(call.arguments)
    else:
        arguments = call.arguments if isinstance(call.arguments, dict) else {}
        # Constrained decoding makes a model write null for each argument that it does not need.
        given = [(key, value) for key, value in arguments.items() if value is not None]
        text = " ".join(str(value) if not number else f"{key}={value}" for number, (key, value) in enumerate(given))
    return f"{printable(call.name):7} {one_line(text)}"


def _remaining(budget: events.BudgetSpent) -> Text:
    """Return the remaining budget that the countdown shows the model, in the color of the phase."""
    phase = Phase(budget.phase)
    if budget.remaining is None or phase is Phase.SILENT:
        return Text()
    kind = Kind(budget.kind)
    rest = units.number(kind, budget.remaining) if kind is Kind.TOOL_CALLS else units.amount(kind, budget.remaining)
    return Text(f"  {rest} remaining", COLORS[phase])


@dataclass
class RunningTotal:
    """The sum over all answered requests of a run and its children."""

    tokens: int = 0
    cost_usd: float | None = 0.0
    """None if the price of any request is unknown."""

    def add(self, event: events.Event) -> None:
        """Add the requests that an event reports."""
        while isinstance(event, events.ChildTold):
            event = event.told
        if isinstance(event, events.Replied | events.Summarized | events.Resumed):
            self.tokens += event.tokens if isinstance(event, events.Resumed) else event.usage.total_tokens
            cost = event.cost_usd
            self.cost_usd = None if cost is None or self.cost_usd is None else self.cost_usd + cost


_WIDEST_BAR = 24
# Minimum width of the bar beside the long form of the text [columns].
_NARROWEST_BAR = 8


def gauge(budget: events.BudgetSpent, calls: int, turn: int, total: RunningTotal, seconds: float, width: int) -> Text:
    """Return the line, in at most `width` columns.

    budget: state of the limit closest to exhaustion; its `limit` is None if there is none.
    calls: number of tool calls, shown if there is no limit.
    """
    # An unknown price is named at the end of the run, not all the time; offline nothing is billed.
    cost = f" · {units.dollars(total.cost_usd)}" if total.cost_usd else ""
    rest = f"{total.tokens:,} tokens{cost} · {seconds:.0f} s"
    if budget.limit is None:
        made = units.amount(Kind.TOOL_CALLS, calls)
        long, short, color = f"{made}, no limit", made, "dim"
    else:
        kind, color = Kind(budget.kind), COLORS[Phase(budget.phase)]
        used = units.number(kind, budget.used)
        long, short = f" {used} of {units.of(kind, budget.limit)}", f" {used}/{units.number(kind, budget.limit)}"
    usage, rest = long, f"  turn {turn} · {rest}"
    if len(usage) + len(rest) + _NARROWEST_BAR > width:
        usage, rest = short, rest.replace(f"turn {turn} · ", "")
    size = 0 if budget.limit is None else min(max(width - len(usage) - len(rest), 0), _WIDEST_BAR)
    filled = size if not budget.limit else round(size * min(budget.used / budget.limit, 1))
    text = Text("━" * filled, color, no_wrap=True, overflow="ellipsis").append("━" * (size - filled), "bright_black")
    text.append(usage, color).append(rest, "dim")
    text.truncate(width, overflow="ellipsis")
    return text


# Erased from the second column on: some terminals take an erasure from the very first one for a new screen, and put
# what was there into their history.
# Erases the line with the cursor and all below it.
_ERASE = "\x1b[2K\x1b[C\x1b[J\x1b[D"
_WITHOUT_WRAPPING, _WITH_WRAPPING = "\x1b[?7l", "\x1b[?7h"


def live_lines(render: Callable[[], RenderableType], console: Console) -> Live:
    """Return a live display at the bottom of the terminal, which disappears at the end.

    render: returns the lines; each must fit the width of the terminal.
    """
    # Refreshed by a timer, so that the elapsed time advances during long waits.
    live = Live(get_renderable=render, console=console, transient=True, refresh_per_second=8)
    live._live_render = _Lines("")  # noqa: SLF001 - Rich has no other way to change where the cursor stays
    return live


class _Lines(LiveRender):
    """Leaves the cursor at the beginning of its lines, instead of counting rows to find it again.

    A terminal that becomes narrower wraps its content, often before this program learns of it, but keeps the cursor at
    its character. For the same reason the lines are drawn without wrapping, so that each fills exactly one row.
    """

    def position_cursor(self) -> Control:
        """Return the codes that erase the lines."""
        return _control(f"\r{_ERASE}") if self.last_render_height else Control()

    def restore_cursor(self) -> Control:
        """Return the codes that erase the lines, starting from the row below their beginning, where Rich stops."""
        return _control(f"\r\x1b[A{_ERASE}")

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the lines, and the codes that move back to their beginning."""
        yield _control(_WITHOUT_WRAPPING).segment
        yield from super().__rich_console__(console, options)
        above = self.last_render_height - 1
        yield _control("\r" + (f"\x1b[{above}A" if above > 0 else "") + _WITH_WRAPPING).segment


def _control(codes: str) -> Control:
    control = Control()
    # Printed unchanged, with no width; the kind does not matter to terminals that understand codes.
    control.segment = Segment(codes, None, [(ControlType.CARRIAGE_RETURN,)])
    return control

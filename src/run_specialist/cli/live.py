"""Live view of a run on a terminal: tool calls, budget, landing, and the answer as it streams."""

import math
import time
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from run_specialist.budget import units
from run_specialist.budget.budget import Kind, Phase
from run_specialist.cli.call_lines import CallLines, LineOutput, call_text, one_line
from run_specialist.cli.console import printable
from run_specialist.cli.gauge import gauge
from run_specialist.cli.live_lines import live_lines
from run_specialist.cli.running_total import RunningTotal
from run_specialist.loop.partial_reply import PartialReply
from run_specialist.providers.base import Delta
from run_specialist.record.events import (
    BudgetSpent,
    Called,
    ChildTold,
    Event,
    Finished,
    Forked,
    Requested,
    Resumed,
    Retrying,
    Started,
    Waiting,
)

ANSWER_LINES = 6
ANSWER_CHARACTERS = 2_000
PARSED_CHARACTERS = 100_000
"""Longer answers are not shown while they stream, because each refresh parses the answer again."""


@dataclass(frozen=True)
class _Wait:
    """A wait before a request or a retry."""

    event: Retrying | Waiting
    until: float | None
    """Its end by the monotonic clock [s]; None if it is unknown."""
    name: str
    """Prefix with the name of the child run that waits; empty for the run itself."""

    @property
    def text(self) -> str:
        """The remaining time first, so that even a narrow terminal shows it."""
        left = 0 if self.until is None else math.ceil(self.until - time.monotonic())
        if isinstance(self.event, Retrying):
            what = f"retry {self.event.attempt} {f'in {left} s' if left > 0 else 'now'}"
        else:
            what = f"waiting {left} s" if left > 0 else "waiting"
        return f"{self.name}{what} · {one_line(self.event.reason)}"


class LiveView:
    """Shows a run on standard error; listens to its events and watches its streamed replies."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True, highlight=False)
        self._spinner = Spinner("dots")
        self._title = ""
        self._doing = "starting"
        self._wait: _Wait | None = None
        self._total = RunningTotal()
        self._turn = 0
        self._begun = time.monotonic()
        self._budget: BudgetSpent | None = None
        self._call_lines = CallLines(LineOutput(self._print, lambda: self._console.width))
        self._reply = PartialReply()
        self._live = live_lines(self._render, self._console)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def __call__(self, event: Event) -> None:
        """Show an event of the run."""
        self._total.add(event)
        self._wait = None
        match event:
            case Started():
                self._title = one_line(f"{event.specialist} · {event.model}")
                self._budget = _unspent(event)
                self._print(Text(self._title, "bold"))
            case Resumed() | Forked():
                self._show_resumed(event)
            case Requested():
                self._turn, self._doing, self._reply = event.turn, "thinking", PartialReply()
            case Retrying():
                self._doing, self._reply = "thinking", PartialReply()
                self._wait_for(event)
            case Waiting() if event.phase == "started":
                self._wait_for(event)
            case Called() if event.phase == "started":
                self._doing = call_text(event)
            case ChildTold():
                self._show_child(event)
            case BudgetSpent():
                self._budget = event
            case Finished():
                self._print("")
            case _:
                pass
        self._call_lines.add(event)

    def grow(self, delta: Delta) -> None:
        """Show a delta of a streamed reply."""
        self._wait = None
        self._reply.add(delta)
        if self._reply.is_answering:
            self._doing = "answering"

    def stopping(self) -> None:
        """Show that the run ends after the current turn."""
        line = Text("stopping after this turn; a second signal stops immediately", "yellow")
        self._print(Padding(line, (0, 0, 0, 2), expand=False))

    def prepare(self, what: str) -> None:
        """Show what happens before the run begins; may be called from any thread."""
        self._doing = one_line(what)

    def _show_child(self, child: ChildTold) -> None:
        """Show the activity of a child run; the budget bar shows the parent only."""
        match child.told:
            case ChildTold():
                self._show_child(child.told)
            case Requested():
                self._doing = f"{printable(child.specialist)}: thinking"
            case Called() if child.told.phase == "started":
                self._doing = f"{printable(child.specialist)}: {call_text(child.told)}"
            case Retrying():
                self._wait_for(child.told, f"{printable(child.specialist)}: ")
            case Waiting() if child.told.phase == "started":
                self._wait_for(child.told, f"{printable(child.specialist)}: ")
            case _:
                pass

    def _wait_for(self, event: Retrying | Waiting, name: str = "") -> None:
        self._wait = _Wait(event, None if event.seconds is None else time.monotonic() + event.seconds, name)

    def _show_resumed(self, event: Resumed | Forked) -> None:
        self._call_lines.calls = int(event.used.get(Kind.TOOL_CALLS, 0))
        if self._budget is not None and self._budget.limit is not None:
            used = event.used.get(self._budget.kind, 0)
            remaining = max(self._budget.limit - used, 0)
            self._budget = replace(self._budget, used=used, remaining=remaining)
        calls = units.amount(Kind.TOOL_CALLS, self._call_lines.calls)
        after = f"resumed after {calls}"
        if isinstance(event, Forked):
            after = f"forked after {units.amount(Kind.TURNS, event.at)} and {calls}"
        self._print(Text(f"  {after}", "cyan"))

    def _print(self, line: RenderableType) -> None:
        self._console.print(line)

    def _render(self) -> RenderableType:
        row = Table.grid(padding=(0, 1))
        # Without wrapping, the height stays constant; otherwise old lines would remain on the screen.
        row.add_column(no_wrap=True, overflow="ellipsis")
        wait = self._wait
        doing = Text(wait.text, "yellow") if wait else Text(self._doing)
        doing.no_wrap, doing.overflow = True, "ellipsis"
        self._spinner.update(text=doing)
        row.add_row(self._spinner)
        parts: list[RenderableType] = [row, self._gauge()]
        size = len(self._reply)
        answer = self._reply.text if size <= PARSED_CHARACTERS else f"… {size:,} characters"
        if answer:
            # Wrapped at words, so that the newest ones are always on the screen.
            lines = Text(printable(answer[-ANSWER_CHARACTERS:])).wrap(self._console, self._console.width)
            newest = "\n".join(line.plain.rstrip() for line in lines[-ANSWER_LINES:])
            parts.append(Text(newest, "italic", no_wrap=True, overflow="ellipsis"))
        return Group(*parts)

    def _gauge(self) -> Text:
        seconds = time.monotonic() - self._begun
        if self._budget is None:
            return Text(f"{seconds:.0f} s", "dim")
        return gauge(self._budget, self._call_lines.calls, self._turn, self._total, seconds, self._console.width)


def _unspent(started: Started) -> BudgetSpent:
    """Return the initial budget of a run, for the first kind that has a limit."""
    kind, limit = next(((k, v) for k, v in started.limits.items() if v is not None), ("tool_calls", None))
    return BudgetSpent(kind, limit, 0, limit, Phase.SILENT)

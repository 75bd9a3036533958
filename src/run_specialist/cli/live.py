"""Live view of a run on a terminal: tool calls, budget, landing, and the answer as it streams."""

import time
from dataclasses import replace
from types import TracebackType
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from run_specialist.budget import units
from run_specialist.budget.budget import Kind, Phase
from run_specialist.cli.call_lines import COLORS, CallLines, LineOutput, call_text, one_line
from run_specialist.cli.console import printable
from run_specialist.cli.reflow import Reflow, wraps_again
from run_specialist.loop.partial_reply import PartialReply
from run_specialist.providers.base import Delta
from run_specialist.record.events import (
    BudgetSpent,
    Called,
    ChildTold,
    Event,
    Finished,
    Replied,
    Requested,
    Resumed,
    Started,
)

BAR_WIDTH = 24
ANSWER_LINES = 6
ANSWER_CHARACTERS = 2_000
PARSED_CHARACTERS = 100_000
"""Longer answers are not shown while they stream, because each refresh parses the answer again."""


class LiveView:
    """Shows a run on standard error; listens to its events and watches its streamed replies."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True, highlight=False)
        self._spinner = Spinner("dots")
        self._title = ""
        self._doing = "starting"
        self._tokens = 0
        self._turn = 0
        self._begun = time.monotonic()
        self._budget: BudgetSpent | None = None
        self._call_lines = CallLines(LineOutput(self._print, lambda: self._console.width))
        self._reply = PartialReply()
        self._reflow = Reflow(self._console, wraps=wraps_again())
        # Refreshed by a timer, so that the elapsed time advances during long waits.
        self._live = Live(get_renderable=self._render, console=self._console, transient=True, refresh_per_second=8)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def __call__(self, event: Event) -> None:
        """Show an event of the run."""
        match event:
            case Started():
                self._title = one_line(f"{event.specialist} · {event.model}")
                self._budget = _unspent(event)
                self._print(Text(self._title, "bold"))
            case Resumed():
                self._show_resumed(event)
            case Requested():
                self._turn, self._doing, self._reply = event.turn, "thinking", PartialReply()
            case Replied():
                self._tokens += event.usage.total_tokens
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
        self._reply.add(delta)
        if self._reply.is_answering:
            self._doing = "answering"

    def prepare(self, what: str) -> None:
        """Show what is done before the run begins; may be called from any thread."""
        self._doing = one_line(what)

    def _show_child(self, child: ChildTold) -> None:
        """Show the activity of a child run and count its tokens; the budget bar shows the parent only."""
        match child.told:
            case ChildTold():
                self._show_child(child.told)
            case Requested():
                self._doing = f"{printable(child.specialist)}: thinking"
            case Called() if child.told.phase == "started":
                self._doing = f"{printable(child.specialist)}: {call_text(child.told)}"
            case Replied():
                self._tokens += child.told.usage.total_tokens
            case _:
                pass

    def _show_resumed(self, event: Resumed) -> None:
        self._call_lines.calls = int(event.used.get(Kind.TOOL_CALLS, 0))
        if self._budget is not None and self._budget.limit is not None:
            used = event.used.get(self._budget.kind, 0)
            remaining = max(self._budget.limit - used, 0)
            self._budget = replace(self._budget, used=used, remaining=remaining)
        self._print(Text(f"  resumed after {units.amount(Kind.TOOL_CALLS, self._call_lines.calls)}", "cyan"))

    def _print(self, line: RenderableType) -> None:
        if self._reflow.is_pending():
            self._live.refresh()
        self._console.print(line)

    def _render(self) -> RenderableType:
        row = Table.grid(padding=(0, 1))
        # Without wrapping, the height stays constant; otherwise old lines would remain on the screen.
        row.add_column(no_wrap=True, overflow="ellipsis")
        self._spinner.update(text=Text(self._doing, no_wrap=True, overflow="ellipsis"))
        row.add_row(self._spinner)
        parts: list[RenderableType] = [row, self._gauge()]
        size = len(self._reply)
        answer = self._reply.text if size <= PARSED_CHARACTERS else f"… {size:,} characters"
        if answer:
            # Wrapped at words, so that the newest ones are always on the screen.
            lines = Text(printable(answer[-ANSWER_CHARACTERS:])).wrap(self._console, self._console.width)
            newest = "\n".join(line.plain.rstrip() for line in lines[-ANSWER_LINES:])
            parts.append(Text(newest, "italic", no_wrap=True, overflow="ellipsis"))
        return self._reflow.of(Group(*parts))

    def _gauge(self) -> Text:
        seconds = time.monotonic() - self._begun
        rest = f"  turn {self._turn} · {self._tokens:,} tokens · {seconds:.0f} s"
        budget = self._budget
        if budget is None:
            return Text(f"{seconds:.0f} s", "dim")
        if budget.limit is None:
            return Text(f"{self._call_lines.calls} tool calls, no limit{rest}", "dim")
        kind, color = Kind(budget.kind), COLORS[Phase(budget.phase)]
        filled = BAR_WIDTH if not budget.limit else round(BAR_WIDTH * min(budget.used / budget.limit, 1))
        gauge = Text("━" * filled, color, no_wrap=True, overflow="ellipsis").append(
            "━" * (BAR_WIDTH - filled), "bright_black"
        )
        usage = f" {units.number(kind, budget.used)} of {units.of(kind, budget.limit)}"
        return gauge.append(usage, color).append(rest, "dim")


def _unspent(started: Started) -> BudgetSpent:
    """Return the initial budget of a run, for the first kind that has a limit."""
    kind, limit = next(((k, v) for k, v in started.limits.items() if v is not None), ("tool_calls", None))
    return BudgetSpent(kind, limit, 0, limit, Phase.SILENT)

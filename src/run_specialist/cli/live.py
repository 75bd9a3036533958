"""The live view: calls as they are made, the budget, the landing, and the answer as it grows."""

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
from run_specialist.cli.console import printable
from run_specialist.cli.scroll import COLOURS, LineOutput, Scroll, one_line, words
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
"""A longer answer is no longer shown as it grows: parsing it anew each time would cost more than it tells."""


class LiveView:
    """Shows a run on standard error; a listener for its events and a watcher of its replies."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True, highlight=False)
        self._spinner = Spinner("dots")
        self._title = ""
        self._doing = "starting"
        self._tokens = 0
        self._turn = 0
        self._begun = time.monotonic()
        self._budget: BudgetSpent | None = None
        self._scroll = Scroll(LineOutput(self._print, lambda: self._console.width))
        self._draft = PartialReply()
        # Refreshed by a timer, so that a long wait is seen to be one.
        self._live = Live(get_renderable=self._render, console=self._console, transient=True, refresh_per_second=8)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def __call__(self, event: Event) -> None:
        """Take the next event of the run."""
        match event:
            case Started():
                self._title = one_line(f"{event.specialist} · {event.model}")
                self._budget = _unspent(event)
                self._print(Text(self._title, "bold"))
            case Resumed():
                self._go_on(event)
            case Requested():
                self._turn, self._doing, self._draft = event.turn, "thinking", PartialReply()
            case Replied():
                self._tokens += event.usage.total_tokens
            case Called() if event.phase == "started":
                self._doing = words(event)
            case ChildTold():
                self._watch_below(event)
            case BudgetSpent():
                self._budget = event
            case Finished():
                self._print("")
            case _:
                pass
        self._scroll.take(event)

    def grow(self, delta: Delta) -> None:
        """Take a piece of a reply as it streams."""
        self._draft.add(delta)
        if self._draft.is_answering:
            self._doing = "answering"

    def _watch_below(self, child: ChildTold) -> None:
        """Show what a specialist is doing that was asked, and count its tokens; the gauge stays the run's own."""
        match child.told:
            case ChildTold():
                self._watch_below(child.told)
            case Requested():
                self._doing = f"{printable(child.specialist)}: thinking"
            case Called() if child.told.phase == "started":
                self._doing = f"{printable(child.specialist)}: {words(child.told)}"
            case Replied():
                self._tokens += child.told.usage.total_tokens
            case _:
                pass

    def _go_on(self, event: Resumed) -> None:
        self._scroll.calls = int(event.used.get(Kind.TOOL_CALLS, 0))
        if self._budget is not None and self._budget.limit is not None:
            used = event.used.get(self._budget.kind, 0)
            left = max(self._budget.limit - used, 0)
            self._budget = replace(self._budget, used=used, remaining=left)
        self._print(Text(f"  goes on after {units.amount(Kind.TOOL_CALLS, self._scroll.calls)}", "cyan"))

    def _print(self, line: RenderableType) -> None:
        self._console.print(line)

    def _render(self) -> RenderableType:
        row = Table.grid(padding=(0, 1))
        # A line that wraps now and then changes the height, and what was drawn last stays on the screen.
        row.add_column(no_wrap=True, overflow="ellipsis")
        self._spinner.update(text=Text(self._doing, no_wrap=True, overflow="ellipsis"))
        row.add_row(self._spinner)
        parts: list[RenderableType] = [row, self._gauge()]
        size = len(self._draft)
        answer = self._draft.text if size <= PARSED_CHARACTERS else f"… {size:,} characters"
        if answer:
            lines = printable(answer[-ANSWER_CHARACTERS:]).splitlines()[-ANSWER_LINES:]
            parts.append(Text("\n".join(lines), "italic", no_wrap=True, overflow="ellipsis"))
        return Group(*parts)

    def _gauge(self) -> Text:
        seconds = time.monotonic() - self._begun
        rest = f"  turn {self._turn} · {self._tokens:,} tokens · {seconds:.0f} s"
        budget = self._budget
        if budget is None:
            return Text(f"{seconds:.0f} s", "dim")
        if budget.limit is None:
            return Text(f"{self._scroll.calls} tool calls, no limit{rest}", "dim")
        kind, colour = Kind(budget.kind), COLOURS[Phase(budget.phase)]
        filled = BAR_WIDTH if not budget.limit else round(BAR_WIDTH * min(budget.used / budget.limit, 1))
        gauge = Text("━" * filled, colour, no_wrap=True, overflow="ellipsis").append(
            "━" * (BAR_WIDTH - filled), "bright_black"
        )
        told = f" {units.number(kind, budget.used)} of {units.of(kind, budget.limit)}"
        return gauge.append(told, colour).append(rest, "dim")


def _unspent(started: Started) -> BudgetSpent:
    """Return how the budget stands before anything is spent: the first limit speaks."""
    kind, limit = next(((k, v) for k, v in started.limits.items() if v is not None), ("tool_calls", None))
    return BudgetSpent(kind, limit, 0, limit, Phase.SILENT)

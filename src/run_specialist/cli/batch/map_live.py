"""The live view of `specialists map` on a terminal: counts, cost, speed, pauses, and the running items."""

import math
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from rich.console import Console, Group, RenderableType
from rich.spinner import Spinner
from rich.text import Text

from run_specialist.budget.units import dollars
from run_specialist.cli.batch.map_counts import by_state, ended_line
from run_specialist.cli.batch.map_progress import MapProgress
from run_specialist.cli.batch.map_units import duration, fitting, rate
from run_specialist.cli.call_lines import STATUSES, one_line
from run_specialist.cli.live_lines import live_lines

if TYPE_CHECKING:
    from run_specialist.batch.batch import Batch
    from run_specialist.batch.done import Done

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
        first = Text(self._head(width - 2))
        # The spinner does not keep the settings of its text.
        first.truncate(max(width - 2, 0), overflow="ellipsis")
        self._spinner.update(text=self._with_bar(first, width - 2))
        lines = [*self._figures(width), *self._items(width)]
        room = max(height - 2, 1)
        return Group(self._spinner, *lines[: room - 1])

    def _head(self, width: int) -> str:
        counts = self._batch.counts
        done = f"{counts.done:,}" if counts.total is None else f"{counts.done:,} of {counts.total:,}"
        under_way = f"{len(self._batch.under_way)} under way"
        return fitting([f"{done} {self._noun}s", under_way], width)

    def _with_bar(self, text: Text, width: int) -> Text:
        counts = self._batch.counts
        size = min(width - text.cell_len - 2, WIDEST_BAR)
        if not counts.total or size < NARROWEST_BAR:
            return text
        filled = math.floor(size * min(counts.done / counts.total, 1))
        return text.append("  ").append("━" * filled, "green").append("━" * (size - filled), "bright_black")

    def _figures(self, width: int) -> Iterator[Text]:
        if counts := fitting(by_state(self._batch.counts), width - 2):
            yield _row(counts, "", width)
        yield _row(fitting(self._money_and_time(), width - 2), "dim", width)
        pause = self._batch.paused
        if pause is not None:
            left = max(math.ceil(pause.until - time.time()), 0)
            when = f"next try in {duration(left)}" if left else "trying again"
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
            yield " ".join(
                [
                    dollars(cost),
                    *([f"of at most {dollars(limit)}"] if limit is not None else []),
                    *([f"of about {dollars(max(expected, cost))}"] if expected is not None and limit is None else []),
                ]
            )
        speed = None if self._batch.paused or self._batch.ended_because else progress.per_second
        if speed and rest:
            yield f"{duration(rest / speed)} left"
        yield duration(progress.seconds)
        if speed:
            yield rate(speed, self._noun)

    def _items(self, width: int) -> Iterator[Text]:
        numbers = {item.number for item in self._batch.under_way}
        shown = [one for one in [*self._progress.under_way.values()] if one.number in numbers]
        for one in shown[-MOST_ITEMS:]:
            name = Text(f"{one.number:>4,}  {one.label}", no_wrap=True)
            name.truncate(max(width // 2 - 2, 8), overflow="ellipsis")
            yield _row(f"{name.plain}  {one_line(one.doing)}", "cyan", width)


def _row(text: str, style: str, width: int) -> Text:
    line = Text(f"  {text}", style, no_wrap=True, overflow="ellipsis")
    line.truncate(width, overflow="ellipsis")
    return line

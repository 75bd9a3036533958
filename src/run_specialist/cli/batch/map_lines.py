"""Print the progress of `specialists map` without a live view: a line per item, or periodic lines for large batches."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from run_specialist.budget.units import dollars
from run_specialist.cli.batch.map_counts import by_state, ended_line
from run_specialist.cli.batch.map_progress import MapProgress
from run_specialist.cli.batch.map_units import duration, rate

if TYPE_CHECKING:
    from run_specialist.batch.batch import Batch
    from run_specialist.batch.done import Done

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
            self._say(self._state())

    def _state(self) -> str:
        counts, progress = self._batch.counts, self._progress
        done = f"{counts.done:,}" if counts.total is None else f"{counts.done:,} of {counts.total:,}"
        parts = [f"{done} {self._noun}s", *by_state(counts)]
        if cost := progress.cost_usd:
            parts.append(dollars(cost))
        if speed := progress.per_second:
            parts.append(rate(speed, self._noun))
            if counts.total is not None:
                parts.append(f"{duration((counts.total - counts.done) / speed)} left")
        return " · ".join(parts)

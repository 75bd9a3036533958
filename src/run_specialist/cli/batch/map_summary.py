"""Summarize an ended batch: counts, cost, the place of the answers, and the commands that continue it."""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import ROUND_UP, Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from run_specialist.api.flag_names import with_flags
from run_specialist.budget.units import dollars
from run_specialist.cli.batch.map_counts import by_state
from run_specialist.cli.batch.map_progress import MapProgress
from run_specialist.cli.batch.map_units import counted, duration

if TYPE_CHECKING:
    from run_specialist.batch.batch import Batch
    from run_specialist.record.outcome import Outcome


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

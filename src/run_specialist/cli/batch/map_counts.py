"""Format the counts of a batch as words, and a line about each ended item."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from run_specialist.api.flag_names import with_flags
from run_specialist.budget import units
from run_specialist.budget.budget import Kind
from run_specialist.cli.batch.map_units import duration, label

if TYPE_CHECKING:
    from run_specialist.batch.counts import Counts
    from run_specialist.batch.done import Done


def by_state(counts: "Counts") -> Iterator[str]:
    """Yield the number of items in each non-empty state, e.g. `30 answered`, `2 failed (rate limited 2)`."""
    for number, state in (
        (counts.answered, "answered"),
        (counts.landed, "landed"),
        (counts.partial, "partial"),
    ):
        if number:
            yield f"{number:,} {state}"
    if failed := sum(counts.failed.values()):
        yield f"{failed:,} failed ({', '.join(reasons(counts))})"
    if counts.aborted:
        yield f"{counts.aborted:,} interrupted"
    if counts.at_work_elsewhere:
        yield f"{counts.at_work_elsewhere:,} at work elsewhere"
    if counts.not_run:
        yield f"{counts.not_run:,} not run"


def reasons(counts: "Counts") -> Iterator[str]:
    """Yield the reasons for failed items, the most frequent first, e.g. `2 rate limited`."""
    for kind in sorted(counts.failed, key=lambda kind: -counts.failed[kind]):
        yield f"{counts.failed[kind]:,} {kind.replace('_', ' ')}"


def ended_line(done: "Done") -> str:
    """Return a line about an ended item: its state, name, time and cost, and why it has no answer."""
    name = label(done.input, done.item.question)
    parts = [f"{done.number:,} {name}" if name else f"{done.number:,}", done.state]
    if outcome := done.outcome:
        parts.append(units.amount(Kind.TOOL_CALLS, outcome.tool_calls.used))
        if outcome.cost_usd:
            parts.append(units.dollars(outcome.cost_usd))
        parts.append(duration(outcome.duration_s))
    if done.error:
        parts[1] = f"{done.state}: {' '.join(with_flags(done.error).split())}"
    return " · ".join(parts)

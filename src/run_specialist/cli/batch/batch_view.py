"""Show one batch: `specialists batches BATCH`."""

import shutil
from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING

from run_specialist.budget.units import dollars
from run_specialist.cli.batch.batch_table import batch_json, cost_words
from run_specialist.cli.console import is_terminal, print_json, print_line, say
from run_specialist.cli.runs_table import duration_words, one_line, print_cells, same, short_path
from run_specialist.cli.show_runs import local, print_labelled
from run_specialist.cli.wrapping import wrapped

if TYPE_CHECKING:
    from run_specialist.store.batch_reader import StoredBatches
    from run_specialist.store.batches import StoredBatch
    from run_specialist.store.stored_batch import BatchTotals, ItemResult
    from run_specialist.views.batch_failures import Failure

FIRST_FAILURES = 10
"""How many failed items are shown."""
_LABEL = 10
"""Width of a label [columns]."""
_SHORTEST = 20
"""Minimum width of the text beside a label [columns]."""


def show_batch(opened: "StoredBatches", batch: "StoredBatch", *, json_: bool) -> None:
    """Print a batch: counts, cost, reasons of failures, and the first failed items."""
    from run_specialist.views.batch_failures import failures  # noqa: PLC0415 - fast `--help`

    tally = opened.tally(batch.batch_id)
    reasons = failures(opened.items(batch.batch_id, failures=True))
    if json_:
        values = [
            {"reason": one.reason, "count": one.count, "numbers": one.numbers, "example": one.example}
            for one in reasons
        ]
        print_json({**batch_json(batch, tally), "failures": values})
        return
    _print_beside("", f"{batch.batch_id}, {one_line(batch.specialist)}, {batch.state}, {local(batch.created_at)}")
    for label, text in _facts(batch, tally).items():
        if text:
            _print_beside(f"{label:{_LABEL}}", text)
    if reasons:
        _print_reasons(reasons)
        print_line("")
        _print_items(list(islice(opened.items(batch.batch_id, failures=True), FIRST_FAILURES)))
    command = f"specialists report {batch.batch_id}"
    say(f"a page of all items: {command}", dim=True, command=command)


def _facts(batch: "StoredBatch", tally: "BatchTotals") -> dict[str, str]:
    by_status = ", ".join(f"{count:,} {status}" for status, count in tally.counts.items())
    limit = "" if batch.cost_limit is None else f", limit {dollars(batch.cost_limit)}"
    earlier = f"; {tally.earlier:,} of earlier calls" if tally.earlier else ""
    time = ""
    if tally.started_at is not None and tally.ended_at is not None:
        lasted = duration_words(max(tally.ended_at - tally.started_at, 0))
        time = f"{lasted}; all runs together {duration_words(tally.worked_s)}"
    return {
        "question": one_line(batch.question),
        "reason": one_line(batch.reason or ""),
        "project": short_path(batch.project or ""),
        "model": batch.model or "",
        "items": f"{tally.items:,}{f': {by_status}' if by_status else ''}{earlier}",
        "calls": f"{tally.tool_calls:,}",
        "cost": f"{cost_words(tally)}{limit}",
        "time": time,
    }


def _print_reasons(reasons: Sequence["Failure"]) -> None:
    print_line("")
    print_labelled("failures by reason")
    wide = len(f"{reasons[0].count:,}")
    for one in reasons:
        _print_beside(f"  {one.count:{wide},}  ", f"{one.reason}{f', e.g. {one.example}' if one.example else ''}")


def _print_items(items: Sequence["ItemResult"]) -> None:
    from run_specialist.views.batch_failures import reason_of  # noqa: PLC0415 - fast `--help`

    rows = [
        {
            "RUN": same(item.run_id),
            "ITEM": same(f"{item.number:,}"),
            "STATUS": same(item.status),
            "REASON": same(reason_of(item)[0]),
        }
        for item in items
    ]
    print_cells(rows, [one_line(item.question) for item in items], None, ("REASON", "STATUS", "ITEM"))


def _print_beside(label: str, text: str) -> None:
    """Print a text beside its label, wrapped at words on a terminal."""
    if not is_terminal():
        print_labelled(label, text)
        return
    width = max(shutil.get_terminal_size().columns - len(label), _SHORTEST)
    for number, line in enumerate(wrapped(text, width)):
        print_labelled(" " * len(label) if number else label, line.strip())

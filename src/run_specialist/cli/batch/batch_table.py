"""The table of `specialists batches`, and a batch as JSON."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from run_specialist.budget.units import dollars
from run_specialist.cli.runs_table import Cell, one_line, print_cells, project_cell, same, started
from run_specialist.cli.show_runs import iso

if TYPE_CHECKING:
    from run_specialist.store.batches import StoredBatch
    from run_specialist.store.stored_batch import BatchTotals

_DROPPED_FIRST = ("PROJECT", "STATE", "SPECIALIST", "STARTED")


def print_batches(found: Sequence["StoredBatch"], tallies: Mapping[str, "BatchTotals"], *, projects: bool) -> None:
    """Print a table of batches, with a column for each status that one of their items has.

    tallies: by batch.
    projects: add the column of projects.
    """
    from run_specialist.store.batch_status import ITEM_STATUSES  # noqa: PLC0415 - fast `--help`

    present = {"answered"}.union(*(tallies[one.batch_id].counts for one in found))
    statuses = [status for status in ITEM_STATUSES if status in present]
    rows = [_cells(one, tallies[one.batch_id], statuses, projects=projects) for one in found]
    dropped = [*_DROPPED_FIRST, *(status.upper() for status in reversed(statuses)), "COST", "ITEMS"]
    print_cells(rows, [one_line(one.question) for one in found], None, dropped)


def cost_words(tally: "BatchTotals") -> str:
    """Return the cost of a batch as text, with the number of runs whose cost is unknown."""
    if not tally.unknown_costs:
        return dollars(tally.cost_usd)
    unknown = f"{tally.unknown_costs:,} unknown"
    return unknown if tally.unknown_costs == tally.runs else f"{dollars(tally.cost_usd)} + {unknown}"


def batch_json(batch: "StoredBatch", tally: "BatchTotals") -> dict[str, Any]:
    """Return a batch as JSON values, without the settings of its runs; times in UTC."""
    values = {key: value for key, value in asdict(batch).items() if key != "frozen"}
    times = {name: None if (at := getattr(tally, name)) is None else iso(at) for name in ("started_at", "ended_at")}
    counted = {"items": tally.items, **asdict(tally), **times}
    return {**values, "created_at": iso(batch.created_at), **counted}


def _cells(batch: "StoredBatch", tally: "BatchTotals", statuses: Sequence[str], *, projects: bool) -> dict[str, Cell]:
    counts = {status: tally.counts.get(status, 0) for status in statuses}
    items = f"{tally.items:,}"
    cost = cost_words(tally)
    cells = {
        "BATCH": same(batch.batch_id),
        "SPECIALIST": same(one_line(batch.specialist)),
        "STATE": same(batch.state),
        "ITEMS": Cell(items, f"{items} item{'' if tally.items == 1 else 's'}"),
        **{
            status.upper(): Cell(f"{count:,}", f"{count:,} {status}" if count else "")
            for status, count in counts.items()
        },
        "COST": Cell(cost, cost),
        "STARTED": same(started(batch.created_at)),
    }
    return cells | ({"PROJECT": project_cell(batch.project)} if projects else {})

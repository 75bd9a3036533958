"""The command `specialists batches`: list, show or delete batches."""

import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from run_specialist.budget import counted, dollars
from run_specialist.cli.console import fail, guarded, is_terminal, one_line, print_json, print_line, say, wrapped
from run_specialist.cli.flags import Json, StoreUrl
from run_specialist.cli.runs import ALL, DEFAULT_LIMIT, AllProjects, BatchId, BatchLimit, RunsRoot, project_filter
from run_specialist.cli.tables import (
    duration_words,
    iso,
    local,
    print_labelled,
    print_table,
    project_cell,
    short_path,
    started,
)
from run_specialist.errors import StoreMissing

if TYPE_CHECKING:
    from run_specialist.store.batch_reader import StoredBatches
    from run_specialist.store.batches import StoredBatch
    from run_specialist.store.stored import BatchTotals, ItemResult


def batches(
    batch: BatchId = None,
    limit: BatchLimit = None,
    all_projects: AllProjects = False,
    root: RunsRoot = None,
    delete: Annotated[bool, typer.Option("--delete", help="Delete BATCH with its items and all their runs.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Delete without confirmation.")] = False,
    store: StoreUrl = None,
    json_: Json = False,
) -> None:
    """List the batches of this project, show one, or delete it."""
    if delete and batch is None:
        fail("--delete needs the id of a batch")
    with guarded():
        from run_specialist.store.batch_reader import StoredBatches  # noqa: PLC0415 - fast `--help`
        from run_specialist.store.location import place, shown  # noqa: PLC0415 - fast `--help`

        project = project_filter(root, all_projects=all_projects)
        location = place(store)
        try:
            opened = StoredBatches(location.url)
        except StoreMissing as missing:
            if batch is not None:
                raise
            if json_:
                print_json({"batches": [], "store": shown(location.url), "project": project})
            say(str(missing))
            return
        with opened:
            if batch is None:
                _list(opened, project, limit, json_=json_)
                return
            found = opened.find(batch, project)
            if delete:
                _delete(opened, found, yes=yes, json_=json_)
            else:
                show_batch(opened, found, json_=json_)


def _list(opened: "StoredBatches", project: str | None, limit: int | None, *, json_: bool) -> None:
    from run_specialist.store.location import shown  # noqa: PLC0415 - fast `--help`

    most = (ALL if json_ else DEFAULT_LIMIT) if limit is None else limit
    found = opened.listed(project, None if most == ALL else most + 1)
    listed = found[:most]
    tallies = opened.tallies([one.batch_id for one in listed])
    if json_:
        rows = [batch_json(one, tallies[one.batch_id]) for one in listed]
        print_json({"batches": rows, "store": shown(opened.url), "project": project})
    elif not listed:
        say(f"no batches in {shown(opened.url)}" if project is None else f"no batches of {short_path(project)}")
    else:
        print_batches(listed, tallies, projects=project is None)
        more = "the newest " if len(found) > len(listed) else ""
        say(f"{more}{_counted(len(listed), 'batch', 'batches')} in {shown(opened.url)}", dim=True)


def _delete(opened: "StoredBatches", batch: "StoredBatch", *, yes: bool, json_: bool) -> None:
    tally = opened.tally(batch.batch_id)
    what = f"{batch.batch_id} with {_counted(tally.items, 'item', 'items')} and {counted(tally.runs, 'run')}"
    if not yes:
        if sys.stdin is None or not sys.stdin.isatty():
            fail("--yes is required without a terminal; nothing was deleted")
        if not typer.confirm(f"Delete {what} permanently?", err=True):
            fail("nothing was deleted", 0)
    opened.delete(batch.batch_id)
    if json_:
        print_json({"deleted": batch.batch_id, "items": tally.items, "runs": tally.runs})
    else:
        say(f"{what} deleted", dim=True)


def _counted(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"


_DROPPED_FIRST = ("PROJECT", "STATE", "SPECIALIST", "STARTED")


def print_batches(found: Sequence["StoredBatch"], tallies: Mapping[str, "BatchTotals"], *, projects: bool) -> None:
    """Print a table of batches, with a column for each status that one of their items has.

    tallies: by batch.
    projects: add the column of projects.
    """
    from run_specialist.store.batch_reader import ITEM_STATUSES  # noqa: PLC0415 - fast `--help`

    present = {"answered"}.union(*(tallies[one.batch_id].counts for one in found))
    statuses = [status for status in ITEM_STATUSES if status in present]
    rows = [_cells(one, tallies[one.batch_id], statuses, projects=projects) for one in found]
    dropped = [*_DROPPED_FIRST, *(status.upper() for status in reversed(statuses)), "COST", "ITEMS"]
    print_table([*rows[0]], [[*row.values()] for row in rows], dropped=dropped)


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


def _cells(batch: "StoredBatch", tally: "BatchTotals", statuses: Sequence[str], *, projects: bool) -> dict[str, str]:
    return {
        "BATCH": batch.batch_id,
        "SPECIALIST": one_line(batch.specialist),
        "STATE": batch.state,
        "ITEMS": f"{tally.items:,}",
        **{status.upper(): f"{tally.counts.get(status, 0):,}" for status in statuses},
        "COST": cost_words(tally),
        "STARTED": started(batch.created_at),
        **({"PROJECT": project_cell(batch.project)} if projects else {}),
        "QUESTION": one_line(batch.question),
    }


FIRST_FAILURES = 10
"""How many failed items are shown."""
_LABEL = 10
"""Width of a label [columns]."""
_SHORTEST = 20
"""Minimum width of the text beside a label [columns]."""


def show_batch(opened: "StoredBatches", batch: "StoredBatch", *, json_: bool) -> None:
    """Print a batch: counts, cost, reasons of failures, and the first failed items."""
    from run_specialist.views.batch_page import failures  # noqa: PLC0415 - fast `--help`

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
        print_line("")
        print_labelled("failures by reason")
        wide = len(f"{reasons[0].count:,}")
        for one in reasons:
            _print_beside(f"  {one.count:{wide},}  ", f"{one.reason}{f', e.g. {one.example}' if one.example else ''}")
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


def _print_items(items: Sequence["ItemResult"]) -> None:
    from run_specialist.views.batch_page import reason_of  # noqa: PLC0415 - fast `--help`

    rows = [
        (item.run_id, f"{item.number:,}", item.status, reason_of(item)[0], one_line(item.question)) for item in items
    ]
    print_table(("RUN", "ITEM", "STATUS", "REASON", "QUESTION"), rows, dropped=("REASON", "STATUS", "ITEM"))


def _print_beside(label: str, text: str) -> None:
    """Print a text beside its label, wrapped at words on a terminal."""
    if not is_terminal():
        print_labelled(label, text)
        return
    width = max(shutil.get_terminal_size().columns - len(label), _SHORTEST)
    for number, line in enumerate(wrapped(text, width)):
        print_labelled(" " * len(label) if number else label, line.strip())

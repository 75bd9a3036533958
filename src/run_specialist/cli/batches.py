"""The command `specialists batches`: list, show or delete batches."""

from collections.abc import Sequence
from dataclasses import asdict
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from run_specialist.budget import counted, dollars
from run_specialist.cli import tables
from run_specialist.cli.console import confirm, fail, guarded, one_line, print_json, print_line, say
from run_specialist.cli.flags import Json, StoreUrl
from run_specialist.cli.runs import ALL, DEFAULT_LIMIT, AllProjects, BatchId, BatchLimit, RunsRoot, project_filter
from run_specialist.errors import StoreMissing
from run_specialist.store.location import place, shown
from run_specialist.views.page import iso

if TYPE_CHECKING:
    from run_specialist.store.batch_reader import StoredBatches
    from run_specialist.store.batches import StoredBatch
    from run_specialist.store.stored import BatchTotals


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

        project = project_filter(root, all_projects=all_projects)
        url = place(store).url
        try:
            opened = StoredBatches(url)
        except StoreMissing as missing:
            if batch is not None:
                raise
            if json_:
                print_json({"batches": [], "store": shown(url), "project": project})
            say(str(missing))
            return
        with opened:
            if batch is None:
                _list(opened, shown(url), project, limit, json_=json_)
                return
            found = opened.find(batch, project)
            if delete:
                _delete(opened, found, yes=yes, json_=json_)
            else:
                _show(opened, found, json_=json_)


def _list(opened: "StoredBatches", store: str, project: str | None, limit: int | None, *, json_: bool) -> None:
    most = (ALL if json_ else DEFAULT_LIMIT) if limit is None else limit
    found = opened.listed(project, None if most == ALL else most + 1)
    listed = found[:most]
    tallies = opened.tallies([one.batch_id for one in listed])
    if json_:
        rows = [_json(one, tallies[one.batch_id]) for one in listed]
        print_json({"batches": rows, "store": store, "project": project})
    elif not listed:
        say(f"no batches in {store}" if project is None else f"no batches of {tables.short_path(project)}")
    else:
        from run_specialist.store.batch_reader import ITEM_STATUSES  # noqa: PLC0415 - fast `--help`

        # A column for each status that one of the items has.
        present = {"answered"}.union(*(tally.counts for tally in tallies.values()))
        statuses = [status for status in ITEM_STATUSES if status in present]
        cells = [_cells(one, tallies[one.batch_id], statuses, projects=project is None) for one in listed]
        dropped = ["PROJECT", "STATE", "SPECIALIST", "STARTED"]
        dropped += [*(status.upper() for status in reversed(statuses)), "COST", "ITEMS"]
        tables.print_table([*cells[0]], [[*row.values()] for row in cells], dropped=dropped)
        more = "the newest " if len(found) > len(listed) else ""
        say(f"{more}{len(listed):,} batch{'' if len(listed) == 1 else 'es'} in {store}", dim=True)


def _delete(opened: "StoredBatches", batch: "StoredBatch", *, yes: bool, json_: bool) -> None:
    tally = opened.tally(batch.batch_id)
    what = f"{batch.batch_id} with {counted(tally.items, 'item')} and {counted(tally.runs, 'run')}"
    confirm(f"Delete {what} permanently?", "nothing was deleted", yes=yes)
    opened.delete(batch.batch_id)
    if json_:
        print_json({"deleted": batch.batch_id, "items": tally.items, "runs": tally.runs})
    else:
        say(f"{what} deleted", dim=True)


def _cost(tally: "BatchTotals") -> str:
    """Return the cost of a batch as text, with the number of runs whose cost is unknown."""
    if not tally.unknown_costs:
        return dollars(tally.cost_usd)
    unknown = f"{tally.unknown_costs:,} unknown"
    return unknown if tally.unknown_costs == tally.runs else f"{dollars(tally.cost_usd)} + {unknown}"


def _json(batch: "StoredBatch", tally: "BatchTotals") -> dict[str, Any]:
    """Return a batch as JSON values, without the settings of its runs; times in UTC."""
    values = {key: value for key, value in asdict(batch).items() if key != "frozen"}
    times = {name: None if (at := getattr(tally, name)) is None else iso(at) for name in ("started_at", "ended_at")}
    return {**values, "created_at": iso(batch.created_at), "items": tally.items, **asdict(tally), **times}


def _cells(batch: "StoredBatch", tally: "BatchTotals", statuses: Sequence[str], *, projects: bool) -> dict[str, str]:
    return {
        "BATCH": batch.batch_id,
        "SPECIALIST": one_line(batch.specialist),
        "STATE": batch.state,
        "ITEMS": f"{tally.items:,}",
        **{status.upper(): f"{tally.counts.get(status, 0):,}" for status in statuses},
        "COST": _cost(tally),
        "STARTED": tables.started(batch.created_at),
        **({"PROJECT": tables.project_cell(batch.project)} if projects else {}),
        "QUESTION": one_line(batch.question),
    }


# How many failed items are shown.
_FIRST_FAILURES = 10
# Width of a label [columns].
_LABEL = 10


def _show(opened: "StoredBatches", batch: "StoredBatch", *, json_: bool) -> None:
    """Print a batch: counts, cost, reasons of failures, and the first failed items."""
    from run_specialist.views.batch_page import failures, reason_of  # noqa: PLC0415 - fast `--help`

    tally = opened.tally(batch.batch_id)
    reasons = failures(opened.items(batch.batch_id, failures=True))
    if json_:
        print_json({**_json(batch, tally), "failures": [asdict(one) for one in reasons]})
        return
    print_line(f"{batch.batch_id}, {one_line(batch.specialist)}, {batch.state}, {tables.local(batch.created_at)}")
    by_status = ", ".join(f"{count:,} {status}" for status, count in tally.counts.items())
    earlier = f"; {tally.earlier:,} of earlier calls" if tally.earlier else ""
    time = ""
    if tally.started_at is not None and tally.ended_at is not None:
        lasted = tables.duration_words(max(tally.ended_at - tally.started_at, 0))
        time = f"{lasted}; all runs together {tables.duration_words(tally.worked_s)}"
    for label, text in (
        ("question", one_line(batch.question)),
        ("reason", one_line(batch.reason or "")),
        ("project", tables.short_path(batch.project or "")),
        ("model", batch.model or ""),
        ("items", f"{tally.items:,}{f': {by_status}' if by_status else ''}{earlier}"),
        ("calls", f"{tally.tool_calls:,}"),
        ("cost", _cost(tally) + ("" if batch.cost_limit is None else f", limit {dollars(batch.cost_limit)}")),
        ("time", time),
    ):
        if text:
            tables.print_labelled(f"{label:{_LABEL}}", text)
    if reasons:
        print_line("")
        tables.print_labelled("failures by reason")
        for one in reasons:
            print_line(f"  {one.count:,}  {one.reason}{f', e.g. {one.example}' if one.example else ''}")
        print_line("")
        first = [*islice(opened.items(batch.batch_id, failures=True), _FIRST_FAILURES)]
        rows = [(one.run_id, f"{one.number:,}", one.status, reason_of(one)[0], one_line(one.question)) for one in first]
        tables.print_table(("RUN", "ITEM", "STATUS", "REASON", "QUESTION"), rows, dropped=("REASON", "STATUS", "ITEM"))
    command = f"specialists report {batch.batch_id}"
    say(f"a page of all items: {command}", dim=True, command=command)

"""The command `specialists batches`: list batches, show one, or delete it."""

import sys
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from run_specialist.budget.units import dollars
from run_specialist.cli.batch_table import batch_json, cost_words, print_batches
from run_specialist.cli.console import fail, guarded, print_json, print_line, say
from run_specialist.cli.flags import Json, StoreUrl
from run_specialist.cli.runs_table import duration_words, one_line, short_path
from run_specialist.cli.show_runs import counted, local, print_labelled
from run_specialist.cli.stored_run_flags import (
    ALL,
    DEFAULT_LIMIT,
    AllProjects,
    BatchId,
    Limit,
    RunsRoot,
    project_filter,
)
from run_specialist.errors import StoreMissing

if TYPE_CHECKING:
    from run_specialist.store.batch_reader import StoredBatches
    from run_specialist.store.batches import Batch
    from run_specialist.store.stored_batch import Tally

FIRST_FAILURES = 10
"""How many failed items are shown."""


def batches(
    batch: BatchId = None,
    limit: Limit = None,
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
                _show(opened, found, json_=json_)


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


def _show(opened: "StoredBatches", batch: "Batch", *, json_: bool) -> None:
    """Print one batch: counts, cost, reasons of failures, and the first failed items."""
    from run_specialist.views.batch_failures import failures, reason_of  # noqa: PLC0415 - fast `--help`

    tally = opened.tally(batch.batch_id)
    reasons = failures(opened.items(batch.batch_id, failures=True))
    if json_:
        values = [
            {"reason": one.reason, "count": one.count, "numbers": one.numbers, "example": one.example}
            for one in reasons
        ]
        print_json({**batch_json(batch, tally), "failures": values})
        return
    print_labelled(f"{batch.batch_id}  {batch.specialist}  {batch.state}  {local(batch.created_at)}")
    for label, text in _facts(batch, tally).items():
        if text:
            print_labelled(f"{label:10}", text)
    if reasons:
        print_line("")
        print_labelled("failures by reason")
        wide = len(f"{reasons[0].count:,}")
        for one in reasons:
            print_line(f"  {one.count:{wide},}  {one.reason}{f', e.g. {one.example}' if one.example else ''}")
        print_line("")
        print_labelled("first failed items")
        for item in islice(opened.items(batch.batch_id, failures=True), FIRST_FAILURES):
            print_line(f"  {item.number}  {item.run_id}  {item.status}  {one_line(item.question)}")
            print_line(f"     {reason_of(item)[1]}")
    say(f"`specialists report {batch.batch_id}` writes a page of all items", dim=True)


def _facts(batch: "Batch", tally: "Tally") -> dict[str, str]:
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


def _delete(opened: "StoredBatches", batch: "Batch", *, yes: bool, json_: bool) -> None:
    tally = opened.tally(batch.batch_id)
    what = f"{batch.batch_id} with {_counted(tally.items, 'item', 'items')} and {counted(tally.runs)}"
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

"""The command `specialists batches`: list batches, show one, or delete it."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from run_specialist.cli.batch.batch_table import batch_json, print_batches
from run_specialist.cli.batch.batch_view import show_batch
from run_specialist.cli.console import fail, guarded, print_json, say
from run_specialist.cli.flags import Json, StoreUrl
from run_specialist.cli.runs_table import short_path
from run_specialist.cli.show_runs import counted
from run_specialist.cli.stored_run_flags import (
    ALL,
    DEFAULT_LIMIT,
    AllProjects,
    BatchId,
    BatchLimit,
    RunsRoot,
    project_filter,
)
from run_specialist.errors import StoreMissing

if TYPE_CHECKING:
    from run_specialist.store.batch_reader import StoredBatches
    from run_specialist.store.batches import StoredBatch


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

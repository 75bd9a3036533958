"""Delete stored runs after a confirmation: `specialists runs --delete`."""

import sys
from typing import TYPE_CHECKING

import typer

from run_specialist.cli.console import fail, print_json, say
from run_specialist.cli.runs_table import print_runs
from run_specialist.cli.show_runs import as_json, counted, size
from run_specialist.cli.store_size import size_line, store_size
from run_specialist.cli.stored_run_flags import nothing_found

if TYPE_CHECKING:
    from run_specialist.store.reader import Store
    from run_specialist.store.stored import ListedRun


def delete_runs(
    opened: "Store", found: list["ListedRun"], project: str | None, *, named: bool, yes: bool, json_: bool
) -> None:
    """Delete runs with their children; skip those that are running, or fail if they were named by id."""
    chosen = [one for one in found if named or one.status != "running"]
    doomed = opened.with_descendants(chosen)
    if doomed and not yes and (sys.stdin is None or not sys.stdin.isatty()):
        fail("--yes is required without a terminal; nothing was deleted")
    if len(chosen) < len(found):
        say(f"{counted(len(found) - len(chosen))} still running: not deleted")
    if not json_:
        print_runs(doomed, projects=project is None)
    if doomed and not yes and not typer.confirm(f"Delete {counted(len(doomed))} permanently?", err=True):
        fail("nothing was deleted", 0)
    from run_specialist.tools.editing.file_checkpoint import forget  # noqa: PLC0415 - fast `--help`

    freed = opened.delete([one.run_id for one in doomed])
    for one in doomed:
        forget(one.run_id)
    if json_:
        deleted = {"runs": [as_json(one) for one in doomed], "deleted": [one.run_id for one in doomed]}
        print_json({**deleted, **store_size(opened), "project": project})
    else:
        freed_size = f", {size(freed)} freed" if freed else ""
        say(f"{counted(len(doomed))} deleted{freed_size} · {size_line(opened)}", dim=True)
        if not found and project is not None and not named:
            say(nothing_found(opened, project, filtered=True))

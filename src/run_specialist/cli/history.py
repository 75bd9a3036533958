"""The commands that show stored runs: `specialists runs`, `transcript` and `report`."""

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from run_specialist.cli.console import fail, guarded, print_json, print_line, say
from run_specialist.cli.flags import Json, Overwrite, StoreUrl
from run_specialist.cli.open_page import open_page
from run_specialist.cli.private_file import write_private
from run_specialist.cli.report_index import STDOUT, flags_problem, print_page, report_file, write_index
from run_specialist.cli.show_runs import as_json, counted, local, print_labelled, print_rows, print_runs, size
from run_specialist.cli.stored_run_flags import (
    ALL,
    DEFAULT_LIMIT,
    Limit,
    OlderThan,
    ReportedRun,
    RunId,
    RunIds,
    SpecialistFilter,
    StatusFilter,
    open_store,
)
from run_specialist.errors import StoreMissing

if TYPE_CHECKING:
    from run_specialist.store.reader import Store
    from run_specialist.store.stored import Listed


def runs(
    ids: RunIds = None,
    specialist: SpecialistFilter = None,
    status: StatusFilter = None,
    older_than: OlderThan = None,
    limit: Limit = None,
    delete: Annotated[bool, typer.Option("--delete", help="Delete the selected runs and all their data.")] = False,
    all_: Annotated[bool, typer.Option("--all", help="Select all runs.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Delete without confirmation.")] = False,
    store: StoreUrl = None,
    json_: Json = False,
) -> None:
    """List stored runs, newest first, or delete them."""
    if delete and not (all_ or ids or specialist or status or older_than is not None):
        fail("--delete needs a selection: RUN..., --specialist, --status, --older-than or --all")
    limit = limit if limit is not None else ALL if all_ or delete or json_ else DEFAULT_LIMIT
    with guarded():
        try:
            opened = open_store(store)
        except StoreMissing as missing:
            if json_:
                print_json({"runs": [], **({"deleted": []} if delete else {}), **_location(store)})
            say(str(missing))
            return
        with opened:
            # For deletion, a prefix must match exactly one run.
            ids = [opened.find(one).run_id for one in ids] if delete and ids else ids
            found = _select(opened, ids or [], specialist, status, older_than, limit)
            more = len(found) > limit
            found = found[:limit]
            if delete:
                _delete(opened, found, named=bool(ids), yes=yes, json_=json_)
            elif json_:
                print_json({"runs": [as_json(one) for one in found], **_location(opened)})
            else:
                print_runs(found)
                say(f"{'the newest ' if more else ''}{counted(len(found))} · {_store_size(opened)}", dim=True)


def transcript(run: RunId, store: StoreUrl = None, json_: Json = False) -> None:
    """Show the messages and tool calls of a run."""
    with guarded(), open_store(store) as opened:
        from run_specialist.store.conversation import transcript_rows  # noqa: PLC0415 - fast `--help`

        stored = opened.load(run)
        rows = transcript_rows(stored)
        if json_:
            head = {"run_id": stored.run_id, "specialist": stored.specialist, "status": stored.status}
            children = [
                {"run_id": one.run_id, "specialist": one.specialist, "status": one.status} for one in stored.children
            ]
            print_json({**head, "parent_id": stored.parent_id, "children": children, "messages": rows})
            return
        print_labelled(f"{stored.run_id}  {stored.specialist}  {stored.status}  {local(stored.started_at)}")
        if stored.parent_id:
            print_labelled(f"asked by {stored.parent_id}")
        for one in stored.children:
            print_labelled(f"asked {one.run_id}  {one.specialist}  {one.status}")
        print_rows(rows)


def report(
    run: ReportedRun = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Output file; `-` for standard output.  [default: report-RUN.html]"),
    ] = None,
    index: Annotated[
        bool, typer.Option("--index", help="A page that lists all runs.  [default file: report-index.html]")
    ] = False,
    with_reports: Annotated[
        bool, typer.Option("--with-reports", help="With --index: also write the reports that are missing.")
    ] = False,
    open_: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
    force: Overwrite = False,
    store: StoreUrl = None,
    json_: Annotated[bool, typer.Option("--json", help="Print the data of the page as one JSON object.")] = False,
) -> None:
    """Write an HTML report of a run, or an index of all runs."""
    if problem := flags_problem(run, out, index=index, with_reports=with_reports, open_=open_, json_=json_):
        fail(problem)
    with guarded(), open_store(store) as opened:
        if run is None:
            listed = opened.runs()
            path = write_index(opened, listed, out, with_reports=with_reports, overwrite=force, json_=json_)
            _show_page(path, open_=open_)
            return
        from run_specialist.views import report as view  # noqa: PLC0415 - fast `--help`
        from run_specialist.views.page.child_runs import descendants  # noqa: PLC0415 - fast `--help`

        stored = opened.load(run)
        if json_:
            print_json(view.data(stored, descendants(stored, opened.load)))
            return
        page = view.report(stored, descendants(stored, opened.load))
        if out == STDOUT:
            print_page(page)
            return
        path = out or Path(report_file(stored.run_id))
        try:
            write_private(path, page.encode("utf-8", "replace"), overwrite=force)
        except FileExistsError:
            if out or not open_ or not path.is_file():
                fail(f"{path} already exists; use --force to overwrite it")
            say(f"{path} already exists and is opened unchanged; use --force to write it anew", dim=True)
        _show_page(path, open_=open_)


def _show_page(path: Path | None, *, open_: bool) -> None:
    """Print the path of a page, if it is in a file, and open it on request."""
    if path:
        print_line(str(path))
        if open_:
            open_page(path)


def _select(
    opened: "Store",
    ids: Sequence[str],
    specialist: str | None,
    status: str | None,
    older_than: float | None,
    limit: int,
) -> list["Listed"]:
    """Return the selected runs; one more than `limit` if there are more."""
    from run_specialist.store.reader import LAST  # noqa: PLC0415 - fast `--help`

    ids = [opened.find(one).run_id if one == LAST else one for one in ids]
    before = None if older_than is None else time.time() - older_than
    found = opened.runs(
        ids=ids, specialist=specialist, status=status, before=before, limit=None if limit == ALL else limit + 1
    )
    for one in ids:
        if not any(run.run_id.startswith(one) for run in found) and not opened.runs(ids=[one], limit=1):
            # Raises RunNotFound, which suggests similar ids.
            opened.find(one)
    return found


def _delete(opened: "Store", found: list["Listed"], *, named: bool, yes: bool, json_: bool) -> None:
    """Delete runs; skip those that are running, or fail if they were named by id."""
    doomed = [one for one in found if named or one.status != "running"]
    if doomed and not yes and (sys.stdin is None or not sys.stdin.isatty()):
        fail("--yes is required without a terminal; nothing was deleted")
    if len(doomed) < len(found):
        say(f"{counted(len(found) - len(doomed))} still running: not deleted")
    if not json_:
        print_runs(doomed)
    if doomed and not yes and not typer.confirm(f"Delete {counted(len(doomed))} permanently?", err=True):
        fail("nothing was deleted", 0)
    freed = opened.delete([one.run_id for one in doomed])
    if json_:
        deleted = {"runs": [as_json(one) for one in doomed], "deleted": [one.run_id for one in doomed]}
        print_json({**deleted, **_location(opened)})
    else:
        freed_size = f", {size(freed)} freed" if freed else ""
        say(f"{counted(len(doomed))} deleted{freed_size} · {_store_size(opened)}", dim=True)


def _location(store: "Store | str | None") -> dict[str, Any]:
    from run_specialist.store.location import place, shown  # noqa: PLC0415 - fast `--help`

    if store is None or isinstance(store, str):
        return {"store": shown(place(store).url), "size_bytes": 0}
    return {"store": shown(store.url), "size_bytes": store.size}


def _store_size(opened: "Store") -> str:
    location = _location(opened)
    return f"{size(location['size_bytes'])} in {location['store']}"

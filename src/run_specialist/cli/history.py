"""The commands that show stored runs: `specialists runs` and `transcript`."""

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from run_specialist.cli.console import fail, guarded, is_terminal, print_json, say
from run_specialist.cli.delete_runs import delete_runs
from run_specialist.cli.flags import Json, StoreUrl
from run_specialist.cli.runs_table import print_runs
from run_specialist.cli.show_runs import (
    END_OF_COPY,
    as_json,
    counted,
    forked_line,
    local,
    print_labelled,
    print_rows,
)
from run_specialist.cli.store_size import missing_store, size_line, store_size
from run_specialist.cli.stored_run_flags import (
    ALL,
    DEFAULT_LIMIT,
    AllProjects,
    BatchFilter,
    Limit,
    OlderThan,
    RunId,
    RunIds,
    RunsRoot,
    Search,
    SpecialistFilter,
    StatusFilter,
    find_batch,
    find_run,
    nothing_found,
    open_store,
    project_filter,
)
from run_specialist.errors import StoreMissing

if TYPE_CHECKING:
    from run_specialist.store.reader import Store
    from run_specialist.store.selection import Selection
    from run_specialist.store.stored import ListedRun

_UNENDED = ("running", "interrupted")

Follow = Annotated[bool, typer.Option("--follow", help="Print new runs and changes of their status until Ctrl-C.")]
Delete = Annotated[bool, typer.Option("--delete", help="Delete the selected runs and all their data.")]
SelectAll = Annotated[bool, typer.Option("--all", help="Select all runs of the project.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Delete without confirmation.")]


def runs(
    ids: RunIds = None,
    specialist: SpecialistFilter = None,
    status: StatusFilter = None,
    older_than: OlderThan = None,
    search: Search = None,
    limit: Limit = None,
    batch: BatchFilter = None,
    all_projects: AllProjects = False,
    root: RunsRoot = None,
    follow: Follow = False,
    delete: Delete = False,
    all_: SelectAll = False,
    yes: Yes = False,
    store: StoreUrl = None,
    json_: Json = False,
) -> None:
    """List the stored runs of this project, or delete them."""
    is_filtered = bool(ids or specialist or status or search or batch or older_than is not None)
    _check_flags(selected=all_ or is_filtered, delete=delete, follow=follow, batch=batch)
    shows_all = delete or (json_ and not follow)
    # A batch may have more runs than anybody wants to read; a named run or an unusual status selects all.
    hides = not (ids or batch or search or shows_all or status in _UNENDED)
    if limit is None:
        limit = ALL if all_ or shows_all else DEFAULT_LIMIT
    with guarded():
        project = project_filter(root, all_projects=all_projects)
        before = None if older_than is None else time.time() - older_than
        filled = partial(_selection, specialist=specialist, status=status, before=before, words=search or "")
        filled = partial(filled, without_batches=hides)
        if follow:
            _follow(store, filled, ids, project, limit, json_=json_)
        try:
            opened = open_store(store)
        except StoreMissing as missing:
            _print_missing(missing, store, project, delete=delete, json_=json_)
            return
        with opened:
            of_batch = {"batch": find_batch(opened.url, batch, project)} if batch else {}
            selection = filled(_full_ids(opened, ids or [], project, exact=delete), project, **of_batch)
            found, has_more = _select(opened, selection, limit)
            if delete:
                delete_runs(opened, found, project, named=bool(ids), yes=yes, json_=json_)
            elif json_:
                print_json({"runs": [as_json(one) for one in found], **store_size(opened), "project": project})
            else:
                _print_found(opened, selection, found, filtered=is_filtered, has_more=has_more, projects=all_projects)


def transcript(
    run: RunId, all_projects: AllProjects = False, root: RunsRoot = None, store: StoreUrl = None, json_: Json = False
) -> None:
    """Show the messages and tool calls of a run."""
    with guarded(), open_store(store) as opened:
        from run_specialist.store.conversation import copied_rows, transcript_rows  # noqa: PLC0415 - fast `--help`

        stored = opened.load(find_run(opened, run, project_filter(root, all_projects=all_projects)))
        rows, copied = transcript_rows(stored), copied_rows(stored)
        if json_:
            head = {"run_id": stored.run_id, "specialist": stored.specialist, "status": stored.status}
            children = [
                {"run_id": one.run_id, "specialist": one.specialist, "status": one.status} for one in stored.children
            ]
            fork = {"forked_from": stored.forked_from, "forked_at": stored.forked_at, "copied_messages": copied}
            print_json({**head, "parent_id": stored.parent_id, "children": children, **fork, "messages": rows})
            return
        if is_terminal():
            from run_specialist.cli.transcript_view import show_transcript  # noqa: PLC0415 - fast `--help`

            show_transcript(stored, rows, copied)
            return
        print_labelled(f"{stored.run_id}  {stored.specialist}  {stored.status}  {local(stored.started_at)}")
        if stored.parent_id:
            print_labelled(f"asked by {stored.parent_id}")
        for one in stored.children:
            print_labelled(f"asked {one.run_id}  {one.specialist}  {one.status}")
        if stored.forked_from:
            print_labelled(forked_line(stored))
        print_rows(rows, {copied: END_OF_COPY} if stored.forked_from else {})


def _check_flags(*, selected: bool, delete: bool, follow: bool, batch: str | None) -> None:
    """Exit if options exclude each other, or if `--delete` has no selection."""
    if delete and not selected:
        fail("--delete needs a selection: RUN..., --specialist, --status, --older-than, --search, --batch or --all")
    if follow and (delete or batch):
        fail(f"--follow and {'--delete' if delete else '--batch'} exclude each other")


def _selection(ids: Sequence[str], project: str | None, **filters: Any) -> "Selection":  # noqa: ANN401 - its fields
    """Return the filters of a listing; runs given by id, and those of a batch, may be of any project."""
    from run_specialist.store.selection import Selection  # noqa: PLC0415 - fast `--help`

    return Selection(ids=ids, project=None if ids or filters.get("batch") else project, **filters)


def _print_missing(missing: StoreMissing, store: str | None, project: str | None, *, delete: bool, json_: bool) -> None:
    """Print that there are no runs because the store does not exist."""
    if json_:
        print_json({"runs": [], **({"deleted": []} if delete else {}), **missing_store(store), "project": project})
    say(str(missing))


def _print_found(
    opened: "Store",
    selection: "Selection",
    found: list["ListedRun"],
    *,
    filtered: bool,
    has_more: bool,
    projects: bool,
) -> None:
    """Print the selected runs as a table.

    filtered: whether there are filters other than the project.
    has_more: whether the store has more selected runs.
    projects: whether the runs may be of several projects.
    """
    if found:
        print_runs(found, projects=projects, words=selection.words)
        say(f"{'the newest ' if has_more else ''}{counted(len(found))} · {size_line(opened)}", dim=True)
    else:
        say(nothing_found(opened, selection.project, filtered=filtered))
    _say_left_out(opened, selection)


def _say_left_out(opened: "Store", selection: "Selection") -> None:
    """Print how many runs of batches a listing omits, if any."""
    if selection.without_batches and (number := opened.count_left_out(selection)):
        one = number == 1
        say(
            f"{counted(number)} of {'a batch is' if one else 'batches are'} not listed; "
            "`specialists batches` lists the batches, --batch ID the runs of one",
            dim=True,
        )


def _full_ids(opened: "Store", ids: Sequence[str], project: str | None, *, exact: bool) -> list[str]:
    """Return ids or prefixes that match runs; raises RunNotFound, which suggests similar ids.

    exact: each prefix must match exactly one run, which a deletion requires.
    """
    from run_specialist.store.reader import LAST  # noqa: PLC0415 - fast `--help`

    full = [find_run(opened, one, project) if exact or one == LAST else one for one in ids]
    for one in full:
        if not opened.runs(ids=[one], limit=1):
            opened.find(one)
    return full


def _select(opened: "Store", selection: "Selection", limit: int) -> tuple[list["ListedRun"], bool]:
    """Return the selected runs, and whether there are more than `limit`, without children of listed runs."""
    from run_specialist.store.run_trees import first_trees  # noqa: PLC0415 - fast `--help`

    found = opened.trees(selection, None if limit == ALL else limit + 1)
    chosen = found if limit == ALL else first_trees(found, limit)
    return chosen, len(chosen) < len(found)


def _follow(
    store: str | None,
    filled: Callable[[Sequence[str], str | None], "Selection"],
    ids: Sequence[str] | None,
    project: str | None,
    limit: int,
    *,
    json_: bool,
) -> NoReturn:
    from run_specialist.cli.follow import follow  # noqa: PLC0415 - fast `--help`
    from run_specialist.store.reader import LAST  # noqa: PLC0415 - fast `--help`

    if LAST in (ids or ()):
        fail(f"--follow needs the id of a run instead of `{LAST}`")
    try:
        follow(store, filled(ids or [], project), limit, json_=json_, projects=project is None)
    except KeyboardInterrupt:
        raise typer.Exit(130) from None

"""The commands `specialists runs` and `transcript`: list, follow, show and delete stored runs."""

import re
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from run_specialist.budget import counted
from run_specialist.cli import tables
from run_specialist.cli.console import confirm, fail, guarded, one_line, print_json, require_terminal, say
from run_specialist.cli.flags import Json, StoreUrl, one_of_words
from run_specialist.errors import StoreMissing
from run_specialist.store.location import LAST, NONE, place, shown

if TYPE_CHECKING:
    from run_specialist.store.reader import Store
    from run_specialist.store.selection import Selection
    from run_specialist.store.stored import ListedRun


DEFAULT_LIMIT = 20
"""Number of runs listed without `--limit`."""
# Number of runs offered by shell completion.
_COMPLETIONS = 50
ALL = sys.maxsize
"""Value of `--limit none`."""
STATUSES = ("running", "interrupted", "answered", "landed", "partial", "failed", "aborted")

_AGE = re.compile(r"([0-9]{1,6})\s*([mhdw])", re.ASCII)
_SECONDS = {"m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


def open_store(store: str | None) -> "Store":
    """Open the store named by `--store`, or the default store; raises StoreUnusable."""
    from run_specialist.store.reader import Store  # noqa: PLC0415 - fast `--help`

    return Store(place(store).url)


@contextmanager
def existing_store(store: str | None) -> Iterator["Store | None"]:
    """Open the store for reading; None if runs are not stored, or none is stored yet. Raises StoreUnusable."""
    opened = None
    with suppress(StoreMissing):
        opened = None if place(store).url == NONE else open_store(store)
    with opened or nullcontext() as found:
        yield found


def project_filter(root: Path | None, *, all_projects: bool) -> str | None:
    """Return the project to which a command is limited, in the form stored with runs; None for all projects."""
    from run_specialist.specialist.project import project_path  # noqa: PLC0415 - fast `--help`

    if root is not None and not root.is_dir():
        fail(f"--root: {root} is not a folder")
    return None if all_projects else project_path((root or Path.cwd()).absolute())


def nothing_found(opened: "Store", project: str | None, *, filtered: bool) -> str:
    """Return the line for an empty listing.

    filtered: whether there are filters other than the project.
    """
    what = "no matching runs" if filtered else "no runs"
    if project is None:
        return f"{what} in {shown(opened.url)}"
    elsewhere = opened.count_elsewhere(project)
    others = f"; other projects have {counted(elsewhere, 'run')}, listed by --all-projects" if elsewhere else ""
    return f"{what} of {tables.short_path(project)}{others}"


def complete_runs(context: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Return the ids and questions of matching runs for shell completion: without a prefix, those of this project."""
    from run_specialist.store.selection import Selection  # noqa: PLC0415 - fast `--help`

    # Shell completion must not print errors.
    with suppress(Exception), open_store(context.params.get("store")) as opened:
        project = None if incomplete else project_filter(None, all_projects=False)
        ids = [incomplete] if incomplete else ()
        found = opened.trees(Selection(ids, project=project, without_batches=not ids), _COMPLETIONS)
        return [(one.run_id, one_line(one.question)) for one in found]
    return []


def complete_batches(context: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Return the ids and questions of matching batches for shell completion, like `complete_runs`."""
    from run_specialist.store.batch_reader import StoredBatches  # noqa: PLC0415 - fast `--help`

    with suppress(Exception), StoredBatches(place(context.params.get("store")).url) as opened:
        found = opened.listed(None if incomplete else project_filter(None, all_projects=False))
        matching = [one for one in found if one.batch_id.startswith(incomplete)][:_COMPLETIONS]
        return [(one.batch_id, one_line(one.question)) for one in matching]
    return []


def _age(text: str) -> float:
    found = _AGE.fullmatch(text.strip().lower())
    if not found:
        raise typer.BadParameter(f"{text!r} is not an age; expected e.g. 12h, 30d or 8w")
    return int(found[1]) * _SECONDS[found[2]]


def _count(text: str) -> int:
    if text.strip().lower() == "none":
        return ALL
    if not re.fullmatch(r"[0-9]{1,9}", text, re.ASCII):
        raise typer.BadParameter(f"{text!r} is not a number of runs; expected a whole number or none")
    return int(text)


def _newest(what: str, otherwise: str) -> Any:  # noqa: ANN401 - as `typer.Option`
    """Return the option `--limit` of a list.

    what: the listed things, for the help text.
    otherwise: other defaults with their conditions, for the help text.
    """
    return typer.Option(
        "--limit",
        metavar="N|none",
        parser=_count,
        help=f"Only the newest N {what}.  [default: {DEFAULT_LIMIT}; {otherwise}]",
    )


def _words(text: str) -> str:
    if not text.strip():
        raise typer.BadParameter("there are no words to search for")
    return text


_a_run = partial(typer.Argument, metavar="RUN", autocompletion=complete_runs)
RunId = Annotated[
    str, _a_run(help="Id of the run, an unambiguous prefix, or `last`: the newest you started in this project.")
]
ReportedRun = Annotated[
    str | None, _a_run(help="Id of the run or the batch, an unambiguous prefix, or `last`: the newest run.")
]
RunIds = Annotated[list[str] | None, _a_run(help="Run ids, prefixes of ids, or `last`.")]
SpecialistFilter = Annotated[str | None, typer.Option("--specialist", metavar="NAME", help="Runs of this specialist.")]
StatusFilter = Annotated[
    str | None,
    typer.Option(
        "--status",
        metavar="STATUS",
        parser=one_of_words(STATUSES),
        autocompletion=lambda: STATUSES,
        help=f"Runs with this status: {', '.join(STATUSES)}.",
    ),
]
_OLDER = "Runs that ended longer ago, e.g. 12h, 30d or 8w."
OlderThan = Annotated[float | None, typer.Option("--older-than", metavar="AGE", parser=_age, help=_OLDER)]
Limit = Annotated[int | None, _newest("runs", "with --json or --delete, none")]
_ALL = "Include the runs of other projects, not only of this one."
AllProjects = Annotated[bool, typer.Option("--all-projects", help=_ALL)]
_ROOT = "Project of the runs.  [default: the project root]"
RunsRoot = Annotated[Path | None, typer.Option("--root", metavar="FOLDER", help=_ROOT)]
Search = Annotated[
    str | None,
    typer.Option(
        "--search", metavar="WORDS", parser=_words, help="Runs with all these words in the questions or the answer."
    ),
]
BatchLimit = Annotated[int | None, _newest("batches", "with --json, none")]
BatchFilter = Annotated[
    str | None, typer.Option("--batch", metavar="ID", autocompletion=complete_batches, help="Runs of this batch.")
]
BatchId = Annotated[
    str | None,
    typer.Argument(
        metavar="BATCH",
        help="Id of a batch, an unambiguous prefix, or `last`: the newest of this project.",
        autocompletion=complete_batches,
    ),
]


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
    if delete and not (all_ or is_filtered):
        fail("--delete needs a selection: RUN..., --specialist, --status, --older-than, --search, --batch or --all")
    if follow and (delete or batch):
        fail(f"--follow and {'--delete' if delete else '--batch'} exclude each other")
    shows_all = delete or (json_ and not follow)
    if limit is None:
        limit = ALL if all_ or shows_all else DEFAULT_LIMIT
    with guarded():
        from run_specialist.store.batch_reader import StoredBatches  # noqa: PLC0415 - fast `--help`
        from run_specialist.store.selection import Selection  # noqa: PLC0415 - fast `--help`
        from run_specialist.store.stored import first_trees  # noqa: PLC0415 - fast `--help`

        project = project_filter(root, all_projects=all_projects)
        selection = Selection(
            ids=ids or (),
            specialist=specialist,
            status=status,
            before=None if older_than is None else time.time() - older_than,
            # Runs given by id, and those of a batch, may be of any project.
            project=None if ids or batch else project,
            words=search or "",
            # A batch may have more runs than anybody wants to read; a named run or an unusual status selects all.
            without_batches=not (ids or batch or search or shows_all or status in {"running", "interrupted"}),
        )
        if follow:
            if LAST in selection.ids:
                fail(f"--follow needs the id of a run instead of `{LAST}`")
            follow_runs(store, selection, limit, json_=json_, projects=project is None)
        try:
            opened = open_store(store)
        except StoreMissing as missing:
            if json_:
                empty: dict[str, Any] = {"runs": [], "deleted": []} if delete else {"runs": []}
                print_json({**empty, **tables.size_of(store), "project": project})
            say(str(missing))
            return
        with opened:
            if batch:
                with StoredBatches(opened.url) as batches:
                    selection = replace(selection, batch=batches.find(batch, project).batch_id)
            selection = replace(selection, ids=_full_ids(opened, selection.ids, project, exact=delete))
            trees = opened.trees(selection, None if limit == ALL else limit + 1)
            found = trees if limit == ALL else first_trees(trees, limit)
            if delete:
                _delete(opened, found, project, named=bool(ids), yes=yes, json_=json_)
                return
            if json_:
                rows = [tables.as_json(one) for one in found]
                print_json({"runs": rows, **tables.size_of(opened), "project": project})
                return
            if found:
                tables.print_runs(found, projects=all_projects, words=selection.words)
                newest = "the newest " if len(found) < len(trees) else ""
                say(f"{newest}{counted(len(found), 'run')} · {tables.size_line(opened)}", dim=True)
            else:
                say(nothing_found(opened, selection.project, filtered=is_filtered))
            if selection.without_batches and (number := opened.count_left_out(selection)):
                of = "a batch is" if number == 1 else "batches are"
                say(
                    f"{counted(number, 'run')} of {of} not listed; "
                    "`specialists batches` lists the batches, --batch ID the runs of one",
                    dim=True,
                )


def transcript(
    run: RunId, all_projects: AllProjects = False, root: RunsRoot = None, store: StoreUrl = None, json_: Json = False
) -> None:
    """Show the messages and tool calls of a run."""
    with guarded(), open_store(store) as opened:
        from run_specialist.store.stored import copied_rows, transcript_rows  # noqa: PLC0415 - fast `--help`

        stored = opened.load(opened.find(run, project_filter(root, all_projects=all_projects)).run_id)
        rows, copied = transcript_rows(stored), copied_rows(stored)
        if json_:
            head = {"run_id": stored.run_id, "specialist": stored.specialist, "status": stored.status}
            children = [
                {"run_id": one.run_id, "specialist": one.specialist, "status": one.status} for one in stored.children
            ]
            head["question"] = stored.question
            fork = {"forked_from": stored.forked_from, "forked_at": stored.forked_at, "copied_messages": copied}
            print_json({**head, "parent_id": stored.parent_id, "children": children, **fork, "messages": rows})
            return
        from run_specialist.cli.answer import print_transcript  # noqa: PLC0415 - fast `--help`

        print_transcript(stored, rows, copied)


def _full_ids(opened: "Store", ids: Sequence[str], project: str | None, *, exact: bool) -> list[str]:
    """Return ids or prefixes that match runs; raises RunNotFound.

    exact: each prefix must match exactly one run, which a deletion requires.
    """
    full = [opened.find(one, project).run_id if exact or one == LAST else one for one in ids]
    for one in full:
        if not opened.runs(ids=[one], limit=1):
            opened.find(one)
    return full


def _delete(
    opened: "Store", found: list["ListedRun"], project: str | None, *, named: bool, yes: bool, json_: bool
) -> None:
    """Delete runs with their children; skip those that are running, or fail if they were named by id."""
    chosen = [one for one in found if named or one.status != "running"]
    doomed = opened.with_descendants(chosen)
    undone, yes = "nothing was deleted", yes or not doomed
    require_terminal(undone, yes=yes)
    if len(chosen) < len(found):
        say(f"{counted(len(found) - len(chosen), 'run')} still running: not deleted")
    if not json_:
        tables.print_runs(doomed, projects=project is None)
    question = f"Delete {counted(len(doomed), 'run')} permanently?"
    confirm(question, undone, yes=yes)
    from rich.filesize import decimal  # noqa: PLC0415 - fast `--help`

    from run_specialist.tools.file_checkpoint import forget  # noqa: PLC0415 - fast `--help`

    freed = opened.delete([one.run_id for one in doomed])
    for one in doomed:
        forget(one.run_id)
    if json_:
        deleted = {"runs": [tables.as_json(one) for one in doomed], "deleted": [one.run_id for one in doomed]}
        print_json({**deleted, **tables.size_of(opened), "project": project})
    else:
        freed_size = f", {decimal(freed)} freed" if freed else ""
        say(f"{counted(len(doomed), 'run')} deleted{freed_size} · {tables.size_line(opened)}", dim=True)
        if not found and project is not None and not named:
            say(nothing_found(opened, project, filtered=True))


PAUSE = 0.5
"""Interval at which the store is polled [s]."""
# Maximum difference between the clocks of this process and of those that write the store [s].
_LOOK_BACK = 3_600.0


def follow_runs(store: str | None, selection: "Selection", limit: int, *, json_: bool, projects: bool) -> NoReturn:
    """Print the newest selected runs, oldest first, then each that begins, is resumed or ends; exits on Ctrl-C.

    limit: how many at the beginning, as for `Store.trees`.
    """
    widths = {head: width for head, width in tables.RUN_WIDTHS.items() if projects or head != "PROJECT"}
    columns = tables.Columns(widths, tables.RUNS_DROPPED, tables.pattern_of(selection.words))
    states: dict[str, tuple[str, float | None]] = {}
    depths: dict[str, int] = {}

    def print_changed(found: Sequence["ListedRun"]) -> None:
        """Print the runs whose state has changed, oldest first, so that children follow their parents."""
        for run in found:
            if states.get(run.run_id) == (run.status, run.ended_at):
                continue
            states[run.run_id] = (run.status, run.ended_at)
            if json_:
                print_json(tables.as_json(run), indent=None)
                continue
            is_first = not depths
            depth = depths[run.run_id] = depths.get(run.parent_id or "", -1) + 1
            columns.print([tables.run_cells(run, depth, projects=projects)], head=is_first)

    since = time.time() - _LOOK_BACK
    with suppress(KeyboardInterrupt), _wait_for_store(store) as opened:
        # Runs that are not among the newest ones are not printed before they change. They are asked for first:
        # a run that begins in between is printed, now or at the next look.
        earlier = opened.active_since(selection, since)
        print_changed(opened.trees(selection, limit)[::-1])
        for run in earlier:
            states.setdefault(run.run_id, (run.status, run.ended_at))
        while True:
            time.sleep(PAUSE)
            print_changed(opened.active_since(selection, since))
    raise typer.Exit(130)


def _wait_for_store(store: str | None) -> "Store":
    """Open the store; if it does not exist yet, wait for the first run."""
    has_said = False
    while True:
        try:
            return open_store(store)
        except StoreMissing as missing:
            if not has_said:
                say(str(missing))
            has_said = True
            time.sleep(PAUSE)

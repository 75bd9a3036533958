"""The command `specialists report`: write the page of a run or a batch, or an index of runs."""

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from run_specialist.cli.console import fail, guarded, print_json, print_line, say, write_private
from run_specialist.cli.flags import Overwrite, StoreUrl
from run_specialist.cli.runs import AllProjects, ReportedRun, RunsRoot, find_run, open_store, project_filter
from run_specialist.errors import RunSpecialistError

if TYPE_CHECKING:
    from run_specialist.store.batch_reader import StoredBatches
    from run_specialist.store.batches import StoredBatch
    from run_specialist.store.reader import Store
    from run_specialist.store.stored import ListedRun, StoredRun
    from run_specialist.views.report import RelatedRuns


OutFile = Annotated[
    Path | None,
    typer.Option(
        "--out",
        "--output",
        metavar="FILE",
        help="Output file; `-` for standard output.  [default: report-RUN.html beside the store]",
    ),
]
Index = Annotated[bool, typer.Option("--index", help="A page that lists all runs.  [default file: report-index.html]")]
WithReports = Annotated[
    bool, typer.Option("--with-reports", help="With --index or a batch: also write the reports that are missing.")
]
OpenPage = Annotated[bool, typer.Option("--open", help="Open the page in the browser.")]
PageJson = Annotated[bool, typer.Option("--json", help="Print the data of the page as one JSON object.")]


def report(
    run: ReportedRun = None,
    out: OutFile = None,
    index: Index = False,
    with_reports: WithReports = False,
    open_: OpenPage = False,
    force: Overwrite = False,
    all_projects: AllProjects = False,
    root: RunsRoot = None,
    store: StoreUrl = None,
    json_: PageJson = False,
) -> None:
    """Write an HTML report of a run or a batch, or an index of all runs."""
    if problem := flags_problem(run, out, index=index, with_reports=with_reports, open_=open_, json_=json_):
        fail(problem)
    with guarded(), open_store(store) as opened:
        project = project_filter(root, all_projects=all_projects)
        if run is None:
            path = write_index(opened, project, out, with_reports=with_reports, overwrite=force, json_=json_)
            _show_page(path, open_=open_)
            return
        written = write_batch(opened, run, out, with_reports=with_reports, overwrite=force, json_=json_)
        if written is not False:
            _show_page(None if written is True else written, open_=open_)
            return
        if with_reports:
            fail("--with-reports needs --index or a batch")
        path = _write_run(opened, find_run(opened, run, project), out, overwrite=force, json_=json_)
        _show_page(path, open_=open_)


def _write_run(opened: "Store", run_id: str, out: Path | None, *, overwrite: bool, json_: bool) -> Path | None:
    """Write or print the page of a run; return the path of the file, or None if the page was printed."""
    from run_specialist.views import report as view  # noqa: PLC0415 - fast `--help`

    shown = with_related(opened, run_id)
    if json_:
        print_json(view.data(*shown))
        return None
    page = view.report(*shown)
    if out == STDOUT:
        print_page(page)
        return None
    path = out or report_path(opened.url, run_id)
    write_report(path, page, named=out is not None, overwrite=overwrite)
    return path


def _show_page(path: Path | None, *, open_: bool) -> None:
    """Print the path of a page, if it is in a file, and open it on request."""
    if path:
        print_line(str(path))
        if open_:
            open_page(path)


def write_batch(
    opened: "Store", run: str, out: Path | None, *, with_reports: bool, overwrite: bool, json_: bool
) -> Path | bool:
    """Write or print the page of a batch; return the path of the file, or True if the page was printed.

    Return False if `run` is not the id of a batch, or an unambiguous prefix of one.
    with_reports: also write the reports that are missing, into a folder beside the page.
    overwrite: replace files; an older page beside the store is always replaced.
    """
    from run_specialist.store.batch_reader import StoredBatches  # noqa: PLC0415 - fast `--help`

    with StoredBatches(opened.url) as batches:
        batch = batches.meant(run)
        if batch is None:
            return False
        if json_ or out == STDOUT:
            data = _batch_data(batches, batch, None)
            if json_:
                print_json(data)
            else:
                print_page(_page(data))
            return True
        if not SAFE_ID.fullmatch(batch.batch_id) and (out is None or with_reports):
            fail(f"{batch.batch_id!r} cannot be part of a file name; name the file with --out")
        path = out or report_path(opened.url, batch.batch_id)
        folder = path.parent / f"report-{batch.batch_id}"
        if with_reports:
            folder.mkdir(mode=0o700, exist_ok=True)
            write_missing(opened, _runs(batches, batch), folder, overwrite=overwrite)
        write_report(path, _page(_batch_data(batches, batch, folder)), named=out is not None, overwrite=overwrite)
        return path


def _batch_data(batches: "StoredBatches", batch: "StoredBatch", folder: Path | None) -> Mapping[str, Any]:
    """Return the data of the page; for an eval, also its result.

    folder: where to look for reports; None = link none.
    """
    from run_specialist.evals.plan import kept_result  # noqa: PLC0415 - fast `--help`
    from run_specialist.views.batch_page import batch_data, failures  # noqa: PLC0415 - fast `--help`

    batch_id = batch.batch_id
    names = {}
    if folder is not None and folder.is_dir():
        names = reports_in(folder, _runs(batches, batch))
    links = {run_id: f"{folder.name}/{name}" for run_id, name in names.items()} if folder else {}
    reasons = failures(batches.items(batch_id, failures=True))
    data = batch_data(batch, batches.tally(batch_id), reasons, batches.items(batch_id), links)
    result = kept_result(batch.frozen)
    return data if result is None else {**data, "eval": result, "reports": links}


def _runs(batches: "StoredBatches", batch: "StoredBatch") -> Iterator[str]:
    """Yield the run ids of a batch, and of the baseline that an eval compares with."""
    from run_specialist.evals.plan import kept_result  # noqa: PLC0415 - fast `--help`

    begun = {item.run_id: None for item in batches.items(batch.batch_id) if item.started_at is not None}
    compared = (kept_result(batch.frozen) or {}).get("runs", ())
    yield from begun
    yield from (one["run_id"] for one in compared if one["run_id"] and one["run_id"] not in begun)


def _page(data: Mapping[str, Any]) -> str:
    """Return the page of a batch, or of an eval whose result is stored."""
    if (result := data.get("eval")) is not None:
        from run_specialist.views.eval_page import eval_page  # noqa: PLC0415 - fast `--help`

        return eval_page(result, data["reports"])
    from run_specialist.views.batch_page import batch_page  # noqa: PLC0415 - fast `--help`

    return batch_page(data)


def report_name(run_id: str) -> str:
    """Return the file name of a run's report."""
    return f"report-{run_id}.html"


def report_path(url: str, run_id: str) -> Path:
    """Return the path of a page beside the store; for a server, in the folder of the default store.

    The folder is created if it does not exist, accessible to its owner only.
    """
    from run_specialist.store.location import default_folder, file_of  # noqa: PLC0415 - fast `--help`

    file = file_of(url)
    folder = default_folder() if file is None else file.parent
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder / report_name(run_id)


STDOUT = Path("-")
_OURS = b'<meta name="generator" content="specialists report --index">'
_HEAD = 64 * 1024
"""Size of the beginning of a file that is searched for the mark of an index [bytes]."""
SAFE_ID = re.compile(r"\w[\w.-]{0,199}", re.ASCII)
"""Pattern of ids that can be used in a file name."""


def flags_problem(
    run: str | None, out: Path | None, *, index: bool, with_reports: bool, open_: bool, json_: bool
) -> str:
    """Return why the flags of `report` cannot be combined; empty if they can."""
    if index and run is not None:
        return "--index lists all runs, so it takes no RUN"
    if not index and run is None:
        return "RUN is missing; use an id, `last`, or --index for all runs"
    prints = "--json" if json_ else "--out -" if out == STDOUT else ""
    needs = "--open" if open_ else "--with-reports" if with_reports else ""
    return f"{needs} needs a file; it cannot be combined with {prints}" if prints and needs else ""


def write_index(
    opened: "Store", project: str | None, out: Path | None, *, with_reports: bool, overwrite: bool, json_: bool
) -> Path | None:
    """Write or print the index of runs; return the path of the file, or None if the index was printed.

    project: Project of the runs; None = all projects.
    out: Path of the file; None = the default name, `-` = standard output.
    with_reports: Also write the reports that do not exist in the folder of the index.
    overwrite: Replace files; an older index is always replaced.
    Raises OSError.
    """
    from run_specialist.store.selection import Selection  # noqa: PLC0415 - fast `--help`

    runs = sorted(opened.trees(Selection(project=project), None), key=lambda run: run.started_at, reverse=True)
    if json_:
        print_json(_index_data(opened, runs, None, project))
        return None
    from run_specialist.views.run_index import run_index  # noqa: PLC0415 - fast `--help`

    if out == STDOUT:
        print_page(run_index(_index_data(opened, runs, None, project)))
        return None
    path = out or report_path(opened.url, "index")
    overwrite_index = overwrite or _is_index(path)
    if path.exists() and not overwrite_index:
        fail(f"{path} already exists; use --force to overwrite it")
    if with_reports:
        from run_specialist.views.run_index import MOST_RUNS  # noqa: PLC0415 - fast `--help`

        write_missing(opened, [run.run_id for run in runs[:MOST_RUNS]], path.parent, overwrite=overwrite)
    page = run_index(_index_data(opened, runs, path.parent, project)).encode("utf-8", "replace")
    try:
        write_private(path, page, overwrite=overwrite_index)
    except FileExistsError:
        fail(f"{path} already exists; use --force to overwrite it")
    return path


def print_page(page: str) -> None:
    """Print a page as UTF-8, if standard output is open."""
    if sys.stdout is not None:
        sys.stdout.buffer.write(page.encode("utf-8", "replace"))
        sys.stdout.buffer.flush()


def _index_data(
    opened: "Store", runs: Sequence["ListedRun"], folder: Path | None, project: str | None
) -> Mapping[str, Any]:
    """Return the data of the index.

    folder: Folder of the index, where reports are looked for; None = nothing is linked.
    """
    from run_specialist.store.location import shown  # noqa: PLC0415 - fast `--help`
    from run_specialist.views.run_index import MOST_RUNS, index_data  # noqa: PLC0415 - fast `--help`

    listed = {run.run_id for run in runs[:MOST_RUNS]}
    outcomes = {
        past.run_id: past.outcome
        for specialist in sorted({run.specialist for run in runs[:MOST_RUNS]})
        for past in opened.past(specialist)
        if past.run_id in listed
    }
    reports = {} if folder is None else reports_in(folder, listed)
    return index_data(runs, outcomes, reports, shown(opened.url), project)


def reports_in(folder: Path, run_ids: Iterable[str]) -> dict[str, str]:
    """Return the names of the reports in a folder, by run id."""
    files = {one: folder / report_name(one) for one in run_ids if SAFE_ID.fullmatch(one)}
    return {run_id: path.name for run_id, path in files.items() if path.is_file()}


def write_missing(opened: "Store", run_ids: Iterable[str], folder: Path, *, overwrite: bool) -> None:
    """Write the reports that do not exist in a folder, skipping runs that cannot be read.

    overwrite: Write all reports, also those that exist.
    """
    from run_specialist.views.report import report  # noqa: PLC0415 - fast `--help`

    paths = {run_id: folder / report_name(run_id) for run_id in run_ids if SAFE_ID.fullmatch(run_id)}
    missing = {run_id: path for run_id, path in paths.items() if overwrite or not path.exists()}
    say(f"writing {len(missing):,} report{'' if len(missing) == 1 else 's'}", dim=True)
    for run_id, path in missing.items():
        try:
            page = report(*with_related(opened, run_id)).encode("utf-8", "replace")
            write_private(path, page, overwrite=overwrite)
        except RunSpecialistError as error:
            say(f"no report of {run_id}: {error}")
        except FileExistsError:
            say(f"no report of {run_id}: {path} already exists")


def _is_index(path: Path) -> bool:
    """Return whether a regular file, and not a link to one, is an index that this command wrote."""
    if path.is_symlink() or not path.is_file():
        return False
    with path.open("rb") as file:
        return _OURS in file.read(_HEAD)


def with_related(opened: "Store", run_id: str) -> tuple["StoredRun", Mapping[str, "StoredRun"], "RelatedRuns"]:
    """Return a run, all its descendants by id, and the runs to compare it with.

    Raises RunSpecialistError for a run that cannot be read.
    """
    from run_specialist.views.report import descendants, kin  # noqa: PLC0415 - fast `--help`

    stored = opened.load(run_id)
    return stored, descendants(stored, opened.load), kin(stored, opened.load, opened.forks(stored))


def write_report(path: Path, page: str, *, named: bool, overwrite: bool) -> None:
    """Write a page, readable by its owner only.

    named: whether the user named the file; other files, beside the store, may be replaced.
    overwrite: replace the file even if the user named it.
    Raises OSError for a file that the user named.
    """
    try:
        # A page beside the store may be replaced; a link there was not made by this program.
        replace = overwrite or (not named and not path.is_symlink())
        write_private(path, page.encode("utf-8", "replace"), overwrite=replace)
    except FileExistsError:
        fail(f"{path} already exists; use --force to overwrite it")
    except OSError as error:
        if named:
            raise
        fail(f"{path} cannot be written: {error.strerror}; name another file with --out")


_ON_TERMINALS = frozenset({"www-browser", "links", "elinks", "lynx", "w3m"})
"""Browsers that run in the terminal; without one they would hang or write to a log."""


def open_page(path: Path) -> None:
    """Open a file in the browser; if there is none, print one line with the address of the file.

    BROWSER chooses the browser, as for Python's `webbrowser`.
    """
    import webbrowser  # noqa: PLC0415 - fast `--help`

    # An absolute file:// address: its special characters are encoded, so that no shell or option parser sees them.
    address = path.resolve().as_uri()
    try:
        first = os.path.basename(getattr(webbrowser.get(), "name", ""))  # noqa: PTH119 - as webbrowser does
        usable = first not in _ON_TERMINALS or (sys.stdin is not None and sys.stdin.isatty())
        opened = usable and webbrowser.open(address)
    except (webbrowser.Error, OSError, ValueError):
        opened = False
    if not opened:
        say(f"no browser could be started; open {address}")
